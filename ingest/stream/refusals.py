"""What each error of the Kafka client means for us, by the client's name of it (pure)."""

from __future__ import annotations

from ingest.errors import StreamError
from ingest.stream.supplier import AuthenticationRefused, BrokerUnreachable, CallUnanswered, StreamRefused, TopicMissing

MISSING = frozenset(
    {
        "INCONSISTENT_TOPIC_ID",
        "TOPIC_EXCEPTION",
        "UNKNOWN_TOPIC_ID",
        "UNKNOWN_TOPIC_OR_PART",
        "_UNKNOWN_PARTITION",
        "_UNKNOWN_TOPIC",
    }
)
REFUSED = frozenset(
    {
        "CLUSTER_AUTHORIZATION_FAILED",
        "GROUP_AUTHORIZATION_FAILED",
        "SASL_AUTHENTICATION_FAILED",
        "TOPIC_AUTHORIZATION_FAILED",
        "UNSUPPORTED_SASL_MECHANISM",
        "_AUTHENTICATION",
        "_SSL",
    }
)
AWAY = frozenset({"_ALL_BROKERS_DOWN", "_RESOLVE", "_TIMED_OUT", "_TRANSPORT"})
OUT_OF_RANGE = frozenset({"OFFSET_OUT_OF_RANGE", "_AUTO_OFFSET_RESET"})
# A leader is being elected, or the client has not heard of it yet: worth asking again for a while.
LEADERLESS = frozenset(
    {
        "FENCED_LEADER_EPOCH",
        "LEADER_NOT_AVAILABLE",
        "NOT_LEADER_FOR_PARTITION",
        "OFFSET_NOT_AVAILABLE",
        "REPLICA_NOT_AVAILABLE",
        "UNKNOWN_LEADER_EPOCH",
        "_NOENT",
    }
)


def meaning(
    name: str, text: str, topic: str, bootstrap: str, call: str = "", cluster: str | None = None
) -> StreamError:
    """The error of ours for one of the client's, whose own name and text it carries. ``call`` is what was asked;
    ``cluster`` what the cluster answers meanwhile, None where nobody does."""
    detail = f"{name}: {text}"
    if name in MISSING:
        return TopicMissing(topic, detail)
    if name in REFUSED:
        return AuthenticationRefused(topic, bootstrap, detail)
    if name in AWAY:
        if cluster is not None:
            return CallUnanswered(bootstrap, call, detail, cluster)
        return BrokerUnreachable(bootstrap, f"{call}: {detail}" if call else detail)
    return StreamRefused(topic, detail)
