"""The one exception that means: the user can mend this."""


class UserError(Exception):
    """A mistake in the input. Its message is one line that names the place and the remedy.

    The command line prints the message alone and ends with exit code 2; library users catch it like any other.
    """


class RunError(Exception):
    """Work that failed though its input was right, told in one line; exit code 1."""
