"""Reads files of pages (JSONL and WARC, compressed or not) and writes the records that the filter lets through."""

from stream.files.reader import FileReader, Input, Outcome, check_inputs, total_bytes
from stream.files.records import Layout, Record
from stream.files.writer import OutputFile

__all__ = ["FileReader", "Input", "Layout", "Outcome", "OutputFile", "Record", "check_inputs", "total_bytes"]
