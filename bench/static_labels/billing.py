"""Invoices: found, rendered, sent."""

import asyncio
import hashlib
import os
import pickle
import random
import secrets
import sqlite3
import subprocess
import tarfile
import tempfile
import zipfile
from pathlib import Path

import jwt
import requests
import yaml
from flask import Flask, Markup, redirect, render_template_string, request, send_file
from lxml import etree

app = Flask(__name__)
ROOT = Path("/srv/invoices")


def connect() -> sqlite3.Connection:
    return sqlite3.connect("billing.db")


@app.get("/invoices")
def by_customer():
    customer = request.args["customer"]
    rows = connect().execute(f"SELECT * FROM invoice WHERE customer = '{customer}'")  # ~bad:89
    return {"invoices": rows.fetchall()}


@app.get("/invoices/<number>")
def by_number(number):
    rows = connect().execute("SELECT * FROM invoice WHERE number = '%s'" % number)  # ~bad:89
    return {"invoices": rows.fetchall()}


@app.get("/invoices/open")
def open_invoices():
    rows = connect().execute("SELECT * FROM invoice WHERE state = ?", (request.args["state"],))  # ~ok:89
    return {"invoices": rows.fetchall()}


@app.post("/settings")
def settings():
    return yaml.load(request.data, Loader=yaml.Loader)  # ~bad:502


@app.post("/settings/safe")
def safe_settings():
    return yaml.safe_load(request.data)  # ~ok:502


@app.post("/draft")
def draft():
    return pickle.loads(request.data)  # ~bad:502


@app.get("/render")
def render():
    return render_template_string("<h1>" + request.args["title"] + "</h1>")  # ~bad:1336


@app.get("/pdf")
def pdf():
    return send_file(os.path.join("/srv/invoices", request.args["file"]))  # ~bad:22


@app.get("/logo")
def logo():
    return send_file(ROOT / "logo.png")  # ~ok:22


@app.get("/note")
def note():
    with open("/srv/notes/" + request.args["name"]) as file:  # ~bad:22
        return file.read()


@app.get("/go")
def go():
    return redirect(request.args["next"])  # ~bad:601


@app.get("/home")
def home():
    return redirect("/invoices")  # ~ok:601


@app.get("/rates")
def rates():
    return requests.get(request.args["url"], timeout=5).text  # ~bad:918


def convert(source: str) -> None:
    subprocess.run("wkhtmltopdf " + source + " out.pdf", shell=True, check=True)  # ~bad:78


def convert_safely(source: str) -> None:
    subprocess.run(["wkhtmltopdf", source, "out.pdf"], check=True)  # ~ok:78


def mail(address: str) -> None:
    os.system("mail -s invoice " + address)  # ~bad:78


def total(formula: str) -> float:
    return eval(formula)  # ~bad:95


def digest(password: str) -> str:
    return hashlib.md5(password.encode()).hexdigest()  # ~bad:327


def cache_key(body: bytes) -> str:
    return hashlib.md5(body, usedforsecurity=False).hexdigest()  # ~ok:327


def reset_token() -> str:
    return "".join(random.choice("0123456789abcdef") for _ in range(32))  # ~bad:338


def invite_token() -> str:
    return secrets.token_urlsafe(24)  # ~ok:338


def claims(token: str) -> dict:
    return jwt.decode(token, options={"verify_signature": False})  # ~bad:347


def verified_claims(token: str, key: str) -> dict:
    return jwt.decode(token, key, algorithms=["HS256"])  # ~ok:347


def unpack(upload: str) -> None:
    with tarfile.open(upload) as archive:
        archive.extractall("/srv/uploads")  # ~bad:22


def unpack_zip(upload: str) -> None:
    with zipfile.ZipFile(upload) as archive:
        archive.extractall("/srv/uploads")  # ~ok:22


def parse(text: bytes):
    return etree.fromstring(text, parser=etree.XMLParser(resolve_entities=True))  # ~bad:611


def badge(name: str):
    return Markup("<b>" + name + "</b>")  # ~bad:79


def fetch(url: str) -> str:
    return requests.get(url, verify=False, timeout=5).text  # ~bad:295


def fetch_checked(url: str) -> str:
    return requests.get(url, timeout=5).text  # ~ok:295


def scratch() -> str:
    return tempfile.mktemp(suffix=".pdf")  # ~bad:377


def scratch_file():
    return tempfile.NamedTemporaryFile(suffix=".pdf")  # ~ok:377


async def send(number: int) -> int:
    await asyncio.sleep(0)
    return number


async def send_all(numbers: list[int]) -> None:
    for number in numbers:
        send(number)  # ~bad:0


async def send_in_order(numbers: list[int]) -> None:
    for number in numbers:
        await send(number)  # ~ok:0


def remember(item, seen=[]):  # ~bad:0
    seen.append(item)
    return seen


def forget(path: Path) -> None:
    try:
        path.unlink()
    except Exception:  # ~bad:390
        pass


def remove(path: Path) -> None:
    try:
        path.unlink()
    except FileNotFoundError:  # ~ok:390
        pass
