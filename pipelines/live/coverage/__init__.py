"""Asks AIConfigurator for every model on every system that it has, and ships what reaches a frontier."""
