"""Tables that AIConfigurator is asked for while a lake is built."""
