"""Data sets that `jaxaug data fetch` downloads for the experiments."""

from jaxaug.data.datasets import DataSet

_FEWSHOT_COMMIT = "e098c2265a27f2e107540c54c6992fc0cd20a4a9"
_SNIPS_COMMIT = "b86ac7f1577868c42158d0dec77db50956046696"

FEWSHOT = DataSet(
    url="https://raw.githubusercontent.com/jasonwei20/triplet-loss/"
    f"{_FEWSHOT_COMMIT}/data.zip",
    archive="triplet-loss-data.zip",
    keep=r"((?:huff|covidclu|amzn|fewrel)/(?:train|test)\.txt)",
    layout="huff/, covidclu/, amzn/ and fewrel/ with train.txt and test.txt each",
    sha256="f4cfac50c6abbab520cffa0802732ac3fb87561588a18fa4d96291902dd35f36",
    note="HuffPost, COVID-Q, Amazon and FewRel as in Wei et al. (2021).",
)

SNIPS = DataSet(
    url=f"https://github.com/sonos/nlu-benchmark/archive/{_SNIPS_COMMIT}.tar.gz",
    archive="nlu-benchmark.tar.gz",
    keep=r"2017-06-custom-intent-engines/\w+/"
    r"(train_[A-Za-z]+_full\.json|validate_[A-Za-z]+\.json)",
    layout="train_<Intent>_full.json and validate_<Intent>.json of 7 intents",
    trees={"2017-06-custom-intent-engines": "ad8a124a6153ce342ae54ed5f7c341e7b87b57e6"},
    note="Seven intents of the SNIPS benchmark, CC0.",
)
