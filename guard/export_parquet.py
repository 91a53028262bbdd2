"""Guard: a run's rows as a Parquet file, or as a folder that Hugging Face's `datasets` opens. Streamed, in batches."""

import json
from dataclasses import asdict
from importlib import import_module
from pathlib import Path
from typing import Any, get_args, get_type_hints

from benchmark_core.errors import InputError, LedgerError
from guard.export import FORMAT, ExportRow, Source, fresh, private_file, rows

CARD = """---
configs:
- config_name: default
  data_files:
  - split: train
    path: data/train-*.parquet
---

# A run of UserSim-Guard

One row a question: what a simulated user was asked, what it replied, and how that was rated. `accepted` is empty where
there is no verdict; a simulator that gave no reply (`failure`) is not accepted.
{texts}

Open it with `datasets.load_dataset(FOLDER, split="train")`, or read the Parquet file with any other tool.
Format: `{format}`. What was measured, and with what:

```json
{facts}
```
"""
_TEXTS = {
    True: "Replies, reasons and evidence are whole; they can hold reference answers and SQL.",
    False: "Words of the reference are withheld from replies; reasons, evidence texts and reference are left out.",
}


def write_parquet(run: Source, out: Path) -> None:
    """One Parquet file; `Source.facts` as JSON under the key `usersim-guard` of its metadata.

    Raises:
        InputError: something stands at `out`, it cannot be written, or pyarrow is missing.
    """
    with fresh(out) as draft:
        _write_table(run, draft)


def write_dataset(run: Source, out: Path) -> None:
    """A folder with Parquet data and a card that `datasets.load_dataset(FOLDER)` opens without any code.

    Raises:
        InputError: as `write_parquet`.
    """
    with fresh(out) as draft:
        (draft / "data").mkdir(parents=True, mode=0o700)
        _write_table(run, draft / "data" / "train-00000-of-00001.parquet")
        with private_file(draft / "README.md") as file:
            facts = json.dumps(run.facts(), indent=1)  # names of others stay inside JSON strings, so inside the fence
            file.write(CARD.format(texts=_TEXTS[run.gold], format=FORMAT, facts=facts).encode())


def _write_table(run: Source, path: Path) -> None:
    arrow, parquet = _library("pyarrow"), _library("pyarrow.parquet")
    columns = [_field(arrow, name, hint) for name, hint in get_type_hints(ExportRow).items() if name[0] != "_"]
    schema = arrow.schema(columns, metadata={"usersim-guard": json.dumps(run.facts())})
    with private_file(path) as file, parquet.ParquetWriter(file, schema, compression="zstd") as writer:
        for batch in rows(run):
            try:
                made = arrow.RecordBatch.from_pylist([asdict(row) for row in batch], schema=schema)
            except (ValueError, OverflowError) as error:
                raise LedgerError(f"{run.ledger}: a count that Parquet cannot hold ({error})") from None
            writer.write_batch(made)


def _library(name: str) -> Any:
    try:
        return import_module(name)
    except ModuleNotFoundError:
        raise InputError("--format parquet and dataset need the package pyarrow: pip install pyarrow") from None


def _field(arrow: Any, name: str, hint: Any) -> Any:
    """An Arrow column for the type of a field of `ExportRow`."""
    options = set(get_args(hint)) if type(None) in get_args(hint) else {hint}
    (plain_type,) = options - {type(None)}
    if get_args(plain_type):
        found = arrow.list_(arrow.string())
    elif issubclass(plain_type, str):
        found = arrow.string()
    else:
        found = {bool: arrow.bool_(), int: arrow.int64(), float: arrow.float64()}[plain_type]
    return arrow.field(name, found, nullable=type(None) in options)
