"""The two exceptions whose message is meant for users: one line, without a traceback."""


class UserError(Exception):
    """A mistake that the user can fix. The message is one line that names the place and the remedy.

    The command line prints only the message and exits with code 2; library users catch it like any other exception.

    >>> raise UserError("log.csv: no column 'itme'; did you mean 'item'?")
    Traceback (most recent call last):
    gfn4rec.errors.UserError: log.csv: no column 'itme'; did you mean 'item'?
    """


class RunError(Exception):
    """A failure in spite of valid input, such as a diverged training. The command line exits with code 1."""
