"""Names the types that native queries know in each place, for errors that offer the nearest (pure)."""

from __future__ import annotations

_AGGREGATORS = """
count doubleMean stringFirst stringLast stringAny cardinality filtered grouping timeMin timeMax variance varianceFold
bloom expression histogram singleValue approxHistogram approxHistogramFold fixedBucketsHistogram HLLSketchBuild
HLLSketchMerge HLLSketch hyperUnique thetaSketch sketchBuild sketchMerge quantilesDoublesSketch
quantilesDoublesSketchMerge KllDoublesSketch KllDoublesSketchMerge KllFloatsSketch KllFloatsSketchMerge
arrayOfDoublesSketch
"""
_POST_AGGREGATORS = """
arithmetic fieldAccess finalizingFieldAccess constant expression longGreatest longLeast doubleGreatest doubleLeast
hyperUniqueCardinality stddev variance quantile quantiles min max buckets equalBuckets customBuckets
thetaSketchEstimate thetaSketchSetOp thetaSketchConstant thetaSketchToString sketchEstimate sketchSetOper
HLLSketchEstimate HLLSketchEstimateWithBounds HLLSketchUnion HLLSketchToString arrayOfDoublesSketchToEstimate
arrayOfDoublesSketchToEstimateAndBounds arrayOfDoublesSketchToNumEntries arrayOfDoublesSketchToMeans
arrayOfDoublesSketchToVariances arrayOfDoublesSketchToMetricsSumEstimate arrayOfDoublesSketchToQuantilesSketch
arrayOfDoublesSketchToBase64String arrayOfDoublesSketchToString arrayOfDoublesSketchTTest arrayOfDoublesSketchSetOp
arrayOfDoublesSketchConstant
"""
_FILTERS = """
and or not selector equals null in inType bound range interval like regex search expression columnComparison
arrayContainsElement bloom istrue isfalse true false extraction
"""
_EXTRACTIONS = """
timeFormat time regex partial searchQuery substring upper lower strlen bucket stringFormat cascade identity lookup
registeredLookup
"""
_OTHERS = {
    "dimension": "default extraction lookup listFiltered regexFiltered prefixFiltered",
    "virtual column": "expression nested-field mv-filtered list-filtered fallback",
    "having": "equalTo greaterThan lessThan dimSelector and or not filter always never",
    "data source": "table globalTable union inline lookup query join unnest filter",
    "topN metric": "numeric dimension lexicographic alphaNumeric inverted",
    "search query": "insensitive_contains contains fragment regex all",
}
_OF_NUMBERS = [
    f"{kind}{name}" for kind in ("long", "double", "float") for name in ("Sum", "Min", "Max", "First", "Last", "Any")
]
_OF_QUANTILES = [
    f"{kind}SketchTo{name}"
    for kind in ("quantilesDoubles", "KllDoubles", "KllFloats")
    for name in ("Quantile", "Quantiles", "Rank", "CDF", "Histogram", "String")
]
KNOWN_TYPES: dict[str, list[str]] = {
    "aggregator": [*_OF_NUMBERS, *_AGGREGATORS.split()],
    "post-aggregator": [*_POST_AGGREGATORS.split(), *_OF_QUANTILES],
    "filter": _FILTERS.split(),
    "extraction function": _EXTRACTIONS.split(),
    **{what: names.split() for what, names in _OTHERS.items()},
}
"""By what the type is of."""
