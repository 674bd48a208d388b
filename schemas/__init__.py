"""What the data looks like: the dictionary of fields, the tables, the catalogues and the options."""
