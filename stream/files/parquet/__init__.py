"""Reads Parquet files as rows, and writes the rows of emitted pages. No other package imports pyarrow."""
