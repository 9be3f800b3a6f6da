"""The client and the writer of whole steps."""

from relive.client import Client as Client
from relive.writer import Writer as Writer
