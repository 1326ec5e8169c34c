"""Orders in SQLite."""

import hashlib
import os
import pickle
import sqlite3


def find_order(connection: sqlite3.Connection, order_id: str):
    cursor = connection.execute("SELECT id, customer, total FROM orders WHERE id = '" + order_id + "'")
    return cursor.fetchone()


def load_basket(blob: bytes):
    return pickle.loads(blob)


def receipt_number(order_id: str) -> str:
    return hashlib.md5(order_id.encode()).hexdigest()


def add_line(order_id: str, lines=[]):
    lines.append(order_id)
    return lines
