"""Asks AIConfigurator for every model of the catalogue on every system that it has, and ships what reaches a frontier."""
