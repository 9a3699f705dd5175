"""The tables of the store. `migrations/` creates them; a test holds that both agree.

decisions      a slate that was answered, with all that is needed to compute its probabilities again
events         feedback as it arrived, appended only
samples        closed decisions in the order in which they are learned from
item_changes   the catalogue beyond the log: items added, changed, disabled; the revision counts the changes
versions       published weights of the policy, one of which is promoted
properties     what the store belongs to, and switches that outlive the process
"""

from typing import Final

import sqlalchemy as sa

metadata = sa.MetaData()
_NUMBER = sa.BigInteger().with_variant(sa.Integer(), "sqlite")  # SQLite counts up only columns of this type

# States of a decision.
WAITING: Final = "waiting"  # answered, and not yet reported as shown
OPEN: Final = "open"  # shown; feedback is awaited
CLOSED: Final = "closed"  # a sample
EXPIRED: Final = "expired"  # never reported as shown, so never learned from

# States of an event.
STORED: Final = "stored"
LATE: Final = "late"  # after its decision closed; not learned from
UNKNOWN: Final = "unknown decision"

decisions = sa.Table(
    "decisions",
    metadata,
    sa.Column("number", _NUMBER, primary_key=True, autoincrement=True),
    sa.Column("decision_id", sa.String(64), nullable=False, unique=True),
    sa.Column("request_id", sa.String(128), nullable=False),
    sa.Column("place", sa.Integer, nullable=False),  # of the slate among those of its request
    sa.Column("body_hash", sa.String(64), nullable=False),
    sa.Column("user", sa.String(256)),
    sa.Column("history", sa.JSON, nullable=False),  # what the policy has read: [item, [behaviours]], oldest first
    sa.Column("rule", sa.JSON, nullable=False),  # which items were candidates
    sa.Column("sampling", sa.JSON, nullable=False),
    sa.Column("slate", sa.JSON, nullable=False),  # item ids
    sa.Column("log_prob", sa.JSON, nullable=False),  # of each step, under the sampling that drew it
    sa.Column("learned_log_prob", sa.JSON, nullable=False),  # of each step, at temperature 1
    sa.Column("version", sa.Integer, nullable=False),
    sa.Column("revision", sa.BigInteger, nullable=False),  # of the catalogue
    sa.Column("notes", sa.JSON, nullable=False),
    sa.Column("state", sa.String(16), nullable=False),
    sa.Column("responses", sa.JSON, nullable=False),  # behaviours of each item of the slate, by position
    sa.Column("has_feedback", sa.Boolean, nullable=False),  # any response that has not been taken back
    sa.Column("created", sa.Double, nullable=False),
    sa.Column("due", sa.Double, nullable=False),  # when an open decision closes, and a waiting one expires
    sa.UniqueConstraint("request_id", "place", name="decisions_of_a_request"),
    sa.Index("decisions_by_due", "state", "due"),
    sa.Index("decisions_by_user", "user", "number"),
)

events = sa.Table(
    "events",
    metadata,
    sa.Column("number", _NUMBER, primary_key=True, autoincrement=True),
    sa.Column("event_id", sa.String(128), nullable=False, unique=True),
    sa.Column("decision_id", sa.String(128), nullable=False),  # as clients may write it
    sa.Column("item", sa.String(256), nullable=False),
    sa.Column("behaviour", sa.String(256), nullable=False),
    sa.Column("value", sa.Integer, nullable=False),
    sa.Column("client_time", sa.Double),
    sa.Column("received", sa.Double, nullable=False),
    sa.Column("status", sa.String(16), nullable=False),
    sa.Index("events_by_decision", "decision_id"),
)

samples = sa.Table(
    "samples",
    metadata,
    sa.Column("seq", sa.BigInteger, primary_key=True, autoincrement=False),  # 1, 2, 3, ... without gaps
    sa.Column("decision_id", sa.String(64), sa.ForeignKey("decisions.decision_id"), nullable=False, unique=True),
    sa.Column("responses", sa.JSON, nullable=False),
    sa.Column("item_rewards", sa.JSON, nullable=False),
    sa.Column("reward", sa.Double, nullable=False),
    sa.Column("closed", sa.Double, nullable=False),
)

item_changes = sa.Table(
    "item_changes",
    metadata,
    sa.Column("revision", sa.BigInteger, primary_key=True, autoincrement=False),  # 1, 2, 3, ... without gaps
    sa.Column("item", sa.String(256), nullable=False),
    sa.Column("is_enabled", sa.Boolean, nullable=False),
    sa.Column("title", sa.Text),
    sa.Column("features", sa.JSON, nullable=False),
    sa.Column("changed", sa.Double, nullable=False),
)

versions = sa.Table(
    "versions",
    metadata,
    sa.Column("version", sa.Integer, primary_key=True, autoincrement=False),
    sa.Column("parent", sa.Integer),
    sa.Column("sha256", sa.String(64), nullable=False),
    sa.Column("trained_to_seq", sa.BigInteger, nullable=False),
    sa.Column("step", sa.BigInteger, nullable=False),
    sa.Column("loss", sa.Double),
    sa.Column("state", sa.String(16), nullable=False),  # candidate, promoted, retired, rejected
    sa.Column("reason", sa.Text),  # why it was rejected
    sa.Column("created", sa.Double, nullable=False),
    sa.Column("promoted", sa.Double),  # when it was promoted last
)

properties = sa.Table(
    "properties",
    metadata,
    sa.Column("name", sa.String(64), primary_key=True),
    sa.Column("value", sa.JSON, nullable=False),
)
