"""`jaxaug robustness`: scores a trained tracker under all wordings of a data folder."""

import dataclasses
import sys
import time

from etils import epath

from jaxaug.core import compiled
from jaxaug.core.files import check_writable
from jaxaug.data import folders, sgd
from jaxaug.metrics import evaluate, report
from jaxaug.metrics.frames import write_frames
from jaxaug.metrics.sensitivity import ORIGINAL
from jaxaug.track import run as predicting
from jaxaug.track.arguments import Robustness, robust
from jaxaug.track.tracker import Tracker

_REPORT = "report.json"


def run(arguments: Robustness) -> int:
    """Runs the verb; see `jaxaug robustness --help`."""
    compiled.keep_programs()
    options = robust(arguments.robust)
    out = epath.Path(arguments.out)
    check_writable(out / _REPORT, "--out")
    data_dir, split = folders.resolve_data_dir(arguments.data_dir), arguments.split
    variants, known = folders.evaluated_variants(data_dir, split)
    schemas = {
        name: sgd.read_schema_of(data_dir, split, name, variants)
        for name in (None, *known)
    }
    tracker = Tracker.load(arguments.run, schemas[None], robust=options)
    counts = {}
    for name, schema in schemas.items():
        start, about = time.monotonic(), tracker.about(schema)
        dialogues = list(sgd.read_dialogues(data_dir, split, name, variants))
        found = about.predict_all(dialogues, predicting.resumed(about))
        predicting.write(found, out / (name or ORIGINAL))
        count = sum(len(one.frames) for one in found)
        seconds = time.monotonic() - start
        print(
            f"{name or ORIGINAL}: {count:,} frames in {seconds:.0f} s", file=sys.stderr
        )
        counts[name or ORIGINAL] = predicting.check_lines(found)
        for line in counts[name or ORIGINAL]:
            print(f"  {line}", file=sys.stderr)
    scores, frames = evaluate.score_variants(data_dir, split, out, False, False)
    scores[report.ABOUT] |= {"options": dataclasses.asdict(options), "checks": counts}
    write_frames(out / _REPORT, frames)
    evaluate.write_json(out / _REPORT, scores)
    print(report.text_table([report.Run.of_report(arguments.run, scores)]))
    print(f"written: {out / _REPORT}")
    return 0
