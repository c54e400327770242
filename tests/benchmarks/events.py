"""Deterministic streams for benchmarks: ad events of the Yahoo Streaming Benchmark, and wide edit events."""

from __future__ import annotations

import random
import uuid
from typing import Any, Final

START_MS: Final = 1_700_000_000_000
_AD_TYPES: Final = ("banner", "modal", "sponsored-search", "mail", "mobile")
_EVENT_TYPES: Final = ("view", "click", "purchase")
AD_DIMENSIONS: Final = ("user_id", "page_id", "ad_id", "ad_type", "event_type", "ip_address")
AD_ROLLUP: Final = ("ad_id", "ad_type", "event_type")
_EDIT_TEXTS: Final = (
    "channel", "page", "user", "comment", "namespace", "cityName", "countryName", "countryIsoCode", "regionName",
    "regionIsoCode", "isAnonymous", "isMinor", "isNew", "isRobot",
)  # fmt: skip
_NOWHERE: Final = (
    '"cityName":null,"countryName":null,"countryIsoCode":null,"regionName":null,"regionIsoCode":null,"metroCode":null'
)
_EDIT_LONGS: Final = ("metroCode", "added", "deleted", "delta")


def ad_events(count: int, seed: int = 1) -> list[bytes]:
    """About 246 bytes each, seven texts, one a millisecond, 1,000 ads, 10,000 users."""
    rng = random.Random(seed)

    def identities(number: int) -> list[str]:
        return [str(uuid.UUID(int=rng.getrandbits(128), version=4)) for _ in range(number)]

    ads, users, pages = identities(1_000), identities(10_000), identities(1_000)
    addresses = [".".join(str(rng.randrange(1, 255)) for _ in range(4)) for _ in range(65_536)]
    pick = rng.choice
    return [
        (
            f'{{"user_id":"{pick(users)}","page_id":"{pick(pages)}","ad_id":"{pick(ads)}","ad_type":"{pick(_AD_TYPES)}",'
            f'"event_type":"{pick(_EVENT_TYPES)}","event_time":"{START_MS + at}","ip_address":"{pick(addresses)}"}}'
        ).encode()
        for at in range(count)
    ]


def edit_events(count: int, seed: int = 1) -> list[bytes]:
    """About 520 bytes each, twenty columns of texts, booleans and numbers, one a millisecond."""
    rng = random.Random(seed)
    pages = [f"Page «{n}» of the encyclopédie {rng.randrange(1000)}" for n in range(20_000)]
    words = [f"word{n}" for n in range(500)]
    languages = "en de fr es it ja ru zh pt pl vi ca nl sv ar ko".split()  # noqa: SIM905
    flags = ("false", "true")
    events: list[bytes] = []
    for at in range(count):
        added, deleted, where = rng.randrange(3_000), rng.randrange(300), rng.randrange(300)
        place = _NOWHERE
        if where < 90:
            place = (
                f'"cityName":"City{where}","countryName":"Country{where % 80}","countryIsoCode":"C{where % 80}",'
                f'"regionName":"Region{where}","regionIsoCode":"R{where}","metroCode":{where}'
            )
        clock = f"{22 + at // 3_600_000}:{at // 60_000 % 60:02d}:{at // 1000 % 60:02d}.{at % 1000:03d}"
        comment = " ".join(rng.choices(words, k=12))
        events.append(
            (
                f'{{"time":"2023-11-14T{clock}Z",'
                f'"channel":"#{rng.choice(languages)}.wikipedia","page":"{rng.choice(pages)}",'
                f'"user":"User{rng.randrange(5_000):05d}","comment":"/* Section */ {comment}",'
                f'"namespace":"{"Main" if rng.random() < 0.7 else "Talk"}",{place},"isAnonymous":{flags[where < 90]},'
                f'"isMinor":{flags[rng.random() < 0.2]},"isNew":{flags[rng.random() < 0.1]},'
                f'"isRobot":{flags[rng.random() < 0.4]},"added":{added},"deleted":{deleted},"delta":{added - deleted},'
                f'"score":{rng.random()!r}}}'
            ).encode()
        )
    return events


def data_schema(kind: str, rollup: bool) -> dict[str, Any]:
    """The dataSchema for ``ad`` or ``edit`` events: hourly segments, with minute rollup or without."""
    metrics: list[dict[str, str]] = []
    dimensions: list[Any] = list(AD_DIMENSIONS if kind == "ad" else _EDIT_TEXTS)
    if kind == "edit":
        dimensions += [{"type": "long", "name": name} for name in _EDIT_LONGS] + [{"type": "double", "name": "score"}]
    if rollup:
        metrics = [{"type": "count", "name": "count"}]
        dimensions = list(AD_ROLLUP)
        if kind == "edit":
            dimensions = ["channel", "namespace", "countryName", "isAnonymous", "isNew", "isRobot"]
            metrics += [{"type": "longSum", "name": f"sum_{n}", "fieldName": n} for n in ("added", "deleted", "delta")]
    column, form = ("event_time", "millis") if kind == "ad" else ("time", "iso")
    granularity = {"segmentGranularity": "hour", "queryGranularity": "minute" if rollup else "none", "rollup": rollup}
    return {
        "dataSource": f"{kind}s",
        "timestampSpec": {"column": column, "format": form},
        "dimensionsSpec": {"dimensions": dimensions},
        "metricsSpec": metrics,
        "granularitySpec": granularity,
    }
