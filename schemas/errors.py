"""Errors that a user can mend: shown as one sentence, without a traceback."""


class UserError(Exception):
    """Something in the input is wrong. The message names it and says what to do."""
