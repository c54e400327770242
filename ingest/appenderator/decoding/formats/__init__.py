"""From a message's bytes to documents, one reader for each input format; what a document becomes is decided above.

``document_reader`` builds the reader of a format. The libraries of binary formats are loaded by the first
spec that names them.
"""

from ingest.appenderator.decoding.formats.reader import DocumentReader, document_reader

__all__ = ["DocumentReader", "document_reader"]
