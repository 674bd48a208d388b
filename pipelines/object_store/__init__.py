"""Lakes on object stores: built in a folder of this machine, copied there, the pointer last."""
