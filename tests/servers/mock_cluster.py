"""librdkafka's own mock cluster, from the library inside the client's wheel (Linux wheels).

It lives in this process and dies with it; any client in any process may connect to `bootstrap`.
Every argument type is declared: ctypes would else cut pointers to 32 bits.
"""

from __future__ import annotations

import ctypes
from pathlib import Path

import confluent_kafka

_P, _I, _I16, _I32 = ctypes.c_void_p, ctypes.c_int, ctypes.c_int16, ctypes.c_int32
_S, _Z = ctypes.c_char_p, ctypes.c_size_t
_libs = Path(confluent_kafka.__file__).parent.parent / "confluent_kafka.libs"
_lib = ctypes.CDLL(str(next(_libs.glob("librdkafka*"))))
for _name, _result, _args in (
    ("rd_kafka_conf_new", _P, []),
    ("rd_kafka_new", _P, [_I, _P, _S, _Z]),
    ("rd_kafka_destroy", None, [_P]),
    ("rd_kafka_mock_cluster_new", _P, [_P, _I]),
    ("rd_kafka_mock_cluster_destroy", None, [_P]),
    ("rd_kafka_mock_cluster_bootstraps", _S, [_P]),
    ("rd_kafka_mock_topic_create", _I, [_P, _S, _I, _I]),
    ("rd_kafka_mock_broker_set_rtt", _I, [_P, _I32, _I]),
    ("rd_kafka_mock_push_request_errors_array", None, [_P, _I16, _Z, ctypes.POINTER(_I)]),
):
    _function = getattr(_lib, _name)
    _function.restype, _function.argtypes = _result, _args


class MockCluster:
    """A broker in process for exact error codes and latency; it keeps no more than 5 MB."""

    def __init__(self, brokers: int = 1) -> None:
        scratch = ctypes.create_string_buffer(512)
        self._client = _lib.rd_kafka_new(0, _lib.rd_kafka_conf_new(), scratch, 512)
        self._cluster = _lib.rd_kafka_mock_cluster_new(self._client, brokers)
        self.brokers = range(1, brokers + 1)
        self.bootstrap: str = _lib.rd_kafka_mock_cluster_bootstraps(self._cluster).decode()

    def topic(self, name: str, partitions: int = 1) -> None:
        """Creates a topic."""
        made = _lib.rd_kafka_mock_topic_create(self._cluster, name.encode(), partitions, 1)
        assert made == 0, f"mock topic {name}: error {made}"

    def fail(self, api_key: int, *codes: int) -> None:
        """The next requests of this kind get these error codes, one each; 0 lets one through."""
        listed = (_I * len(codes))(*codes)
        _lib.rd_kafka_mock_push_request_errors_array(self._cluster, api_key, len(codes), listed)

    def latency(self, ms: int) -> None:
        """Every answer of every broker takes this much longer."""
        for broker in self.brokers:
            _lib.rd_kafka_mock_broker_set_rtt(self._cluster, broker, ms)

    def close(self) -> None:
        """Ends the cluster and its client."""
        _lib.rd_kafka_mock_cluster_destroy(self._cluster)
        _lib.rd_kafka_destroy(self._client)
