"""Create the first tables."""

import sqlalchemy as sa
from alembic import op

revision = "0001"
down_revision = None

_NUMBER = sa.BigInteger().with_variant(sa.Integer(), "sqlite")


def upgrade() -> None:
    """Create the tables and their indices."""
    _create_decisions()
    _create_feedback()
    _create_state()


def _create_decisions() -> None:
    op.create_table(
        "decisions",
        sa.Column("number", _NUMBER, primary_key=True, autoincrement=True),
        sa.Column("decision_id", sa.String(64), nullable=False, unique=True),
        sa.Column("request_id", sa.String(128), nullable=False),
        sa.Column("place", sa.Integer, nullable=False),
        sa.Column("body_hash", sa.String(64), nullable=False),
        sa.Column("user", sa.String(256)),
        sa.Column("history", sa.JSON, nullable=False),
        sa.Column("rule", sa.JSON, nullable=False),
        sa.Column("sampling", sa.JSON, nullable=False),
        sa.Column("slate", sa.JSON, nullable=False),
        sa.Column("log_prob", sa.JSON, nullable=False),
        sa.Column("learned_log_prob", sa.JSON, nullable=False),
        sa.Column("version", sa.Integer, nullable=False),
        sa.Column("revision", sa.BigInteger, nullable=False),
        sa.Column("notes", sa.JSON, nullable=False),
        sa.Column("state", sa.String(16), nullable=False),
        sa.Column("responses", sa.JSON, nullable=False),
        sa.Column("has_feedback", sa.Boolean, nullable=False),
        sa.Column("created", sa.Double, nullable=False),
        sa.Column("due", sa.Double, nullable=False),
        sa.UniqueConstraint("request_id", "place", name="decisions_of_a_request"),
    )
    op.create_index("decisions_by_due", "decisions", ["state", "due"])
    op.create_index("decisions_by_user", "decisions", ["user", "number"])


def _create_feedback() -> None:
    op.create_table(
        "events",
        sa.Column("number", _NUMBER, primary_key=True, autoincrement=True),
        sa.Column("event_id", sa.String(128), nullable=False, unique=True),
        sa.Column("decision_id", sa.String(128), nullable=False),  # as clients may write it
        sa.Column("item", sa.String(256), nullable=False),
        sa.Column("behaviour", sa.String(256), nullable=False),
        sa.Column("value", sa.Integer, nullable=False),
        sa.Column("client_time", sa.Double),
        sa.Column("received", sa.Double, nullable=False),
        sa.Column("status", sa.String(16), nullable=False),
    )
    op.create_index("events_by_decision", "events", ["decision_id"])
    op.create_table(
        "samples",
        sa.Column("seq", sa.BigInteger, primary_key=True, autoincrement=False),
        sa.Column("decision_id", sa.String(64), sa.ForeignKey("decisions.decision_id"), nullable=False, unique=True),
        sa.Column("responses", sa.JSON, nullable=False),
        sa.Column("item_rewards", sa.JSON, nullable=False),
        sa.Column("reward", sa.Double, nullable=False),
        sa.Column("closed", sa.Double, nullable=False),
    )


def _create_state() -> None:
    op.create_table(
        "item_changes",
        sa.Column("revision", sa.BigInteger, primary_key=True, autoincrement=False),
        sa.Column("item", sa.String(256), nullable=False),
        sa.Column("is_enabled", sa.Boolean, nullable=False),
        sa.Column("title", sa.Text),
        sa.Column("features", sa.JSON, nullable=False),
        sa.Column("changed", sa.Double, nullable=False),
    )
    op.create_table(
        "versions",
        sa.Column("version", sa.Integer, primary_key=True, autoincrement=False),
        sa.Column("parent", sa.Integer),
        sa.Column("sha256", sa.String(64), nullable=False),
        sa.Column("trained_to_seq", sa.BigInteger, nullable=False),
        sa.Column("step", sa.BigInteger, nullable=False),
        sa.Column("loss", sa.Double),
        sa.Column("state", sa.String(16), nullable=False),
        sa.Column("reason", sa.Text),
        sa.Column("created", sa.Double, nullable=False),
        sa.Column("promoted", sa.Double),
    )
    op.create_table(
        "properties",
        sa.Column("name", sa.String(64), primary_key=True),
        sa.Column("value", sa.JSON, nullable=False),
    )
