import hashlib
import subprocess
import tarfile

import yaml
from django.db import connection
from django.http import HttpResponse, HttpResponseRedirect, FileResponse
from django.utils.safestring import mark_safe
from fastapi import APIRouter

router = APIRouter()


def search(request):
    term = request.GET.get("q", "")
    with connection.cursor() as cursor:
        cursor.execute("SELECT * FROM item WHERE title LIKE '%%%s%%'" % term)  # ~bad:89
        return HttpResponse(cursor.fetchall())


def search_safely(request):
    with connection.cursor() as cursor:
        cursor.execute("SELECT * FROM item WHERE title LIKE %s", [request.GET.get("q", "")])  # ~ok:89
        return HttpResponse(cursor.fetchall())


def download(request):
    return FileResponse(open("/srv/media/" + request.GET["name"], "rb"))  # ~bad:22


def go(request):
    return HttpResponseRedirect(request.GET.get("next"))  # ~bad:601


def hello(request):
    return HttpResponse(mark_safe("<p>Hello %s</p>" % request.GET["name"]))  # ~bad:79


def ping(request):
    host = request.POST["host"]
    out = subprocess.check_output(f"ping -c1 {host}", shell=True)  # ~bad:78
    return HttpResponse(out)


def ping_safely(request):
    out = subprocess.check_output(["ping", "-c1", request.POST["host"]])  # ~ok:78
    return HttpResponse(out)


def configure(request):
    settings = yaml.load(request.body, Loader=yaml.UnsafeLoader)  # ~bad:502
    return HttpResponse(settings["name"])


def restore(path):
    archive = tarfile.open(path)
    archive.extractall("/srv/data")  # ~bad:22


def restore_safely(path):
    archive = tarfile.open(path)
    archive.extractall("/srv/data", filter="data")  # ~ok:22


@router.get("/calc")
async def calc(formula: str):
    return {"value": eval(formula)}  # ~bad:95


def save_user(user, password):
    user.digest = hashlib.sha1(password.encode()).hexdigest()  # ~bad:327
    user.save()


def etag(body):
    return hashlib.sha256(body).hexdigest()  # ~ok:327
