"""The WSGI entry, for servers that speak nothing else (no live pages there)."""

import os

from django.core.wsgi import get_wsgi_application

os.environ.setdefault("DJANGO_SETTINGS_MODULE", "magiccontext.settings")

application = get_wsgi_application()
