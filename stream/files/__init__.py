"""Reads files of pages (JSONL, WARC, Parquet and more) and writes the records of emitted pages."""

from spotsieve.stream.files.file_format import FileFormat, Record
from spotsieve.stream.files.inputs import Input, check_inputs, total_bytes
from spotsieve.stream.files.outputs import OutputFile
from spotsieve.stream.files.reader import FileReader, RecordResult

__all__ = ["FileFormat", "FileReader", "Input", "OutputFile", "Record", "RecordResult", "check_inputs", "total_bytes"]
