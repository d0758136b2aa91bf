"""`python -m symshare.records`: write the JSON Schema of every file anew."""

import json
from pathlib import Path

from symshare.records import ResultRecord, VerdictRecord

for name, kind in {"verdict": VerdictRecord, "result": ResultRecord}.items():
    path = Path(__file__).parent / f"{name}.schema.json"
    path.write_text(json.dumps(kind.json_schema(), indent=2) + "\n", encoding="utf-8")
