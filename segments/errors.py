"""The root of every operating error of the service, and the errors of segments and their storage.

ServiceError
├── InvalidValue                 text or JSON that cannot mean what it should (also a ValueError)
│   ├── InvalidName              data source, version, segment id, storage key
│   ├── InvalidInterval          instants, intervals, periods
│   ├── InvalidGranularity
│   └── InvalidSchema
├── SegmentError
│   ├── SegmentNotFound          no file where the load spec points
│   ├── SegmentCorrupt           bytes, counts or footer do not prove what they claim
│   └── SpillUnreadable          a spill file of the task cannot be read back
├── StorageError
│   ├── StorageMisconfigured     bucket or folder missing, credentials refused: a person must act
│   ├── StorageUnavailable       unreachable or overloaded: heals by itself
│   ├── StorageFull              no space left: heals when space is made
│   ├── KeyTaken                 the key holds other bytes already
│   └── UploadUncertain          the deadline passed while an answer was outstanding
└── CacheError
    ├── CacheFull                everything in the cache is pinned by running queries
    └── SegmentTooLarge          one segment exceeds the limit of the whole cache
"""


class ServiceError(Exception):
    """An error of operation, not of programming.

    ``retryable``: the same call may succeed later without anybody changing anything.
    ``effect_known_absent``: the call certainly changed nothing. Only then may a caller clean up
    what it had prepared; otherwise it has to ask again first.
    """

    retryable: bool = False
    effect_known_absent: bool = True


class InvalidValue(ServiceError, ValueError):
    """A given text or JSON value breaks a rule; the message names value and rule."""


class InvalidName(InvalidValue):
    """A data source, version, segment id or storage key that is not well formed."""


class InvalidInterval(InvalidValue):
    """An instant, interval or period that is not ISO 8601, ends before it starts, or is out of range."""


class InvalidGranularity(InvalidValue):
    """A granularity that Druid does not know, or that is not supported here."""


class InvalidExpression(InvalidValue):
    """A text that is not an expression of Druid's language."""


class InvalidSchema(InvalidValue):
    """A set of columns that cannot be a segment's."""


class SegmentError(ServiceError):
    """Something is wrong with one segment file."""


class SegmentNotFound(SegmentError):
    """Deep storage has no file for this load spec."""


class SegmentCorrupt(SegmentError):
    """A segment file does not hold what its footer or its record says."""


class SpillUnreadable(SegmentError):
    """A spill file is missing, cut off, or holds columns that do not fit the segment."""


class StorageError(ServiceError):
    """Deep storage did not do what was asked."""


class StorageMisconfigured(StorageError):
    """Deep storage refuses us until somebody changes settings, rights or buckets."""


class StorageUnavailable(StorageError):
    """Deep storage could not be reached, or answered with an error of its own, after all retries."""

    retryable = True


class StorageFull(StorageError):
    """Deep storage, or the disk a file was pulled to, has no space left."""

    retryable = True


class KeyTaken(StorageError):
    """The key already holds other bytes; keys are unique per attempt, so two attempts share one."""


class UploadUncertain(StorageError):
    """An upload ran into its deadline and may or may not have landed; start again on a new key."""

    retryable = True
    effect_known_absent = False


class CacheError(ServiceError):
    """The local segment cache cannot hold what a query needs."""


class CacheFull(CacheError):
    """Running queries pin so much of the cache that this segment does not fit now."""

    retryable = True


class SegmentTooLarge(CacheError):
    """The segment is larger than the whole cache may become."""
