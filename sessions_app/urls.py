"""The pages of this app.  Each answers JSON at the same address."""

from django.urls import path

from sessions_app import views

urlpatterns = [
    path("", views.overview, name="overview"),
    path("sessions/", views.session_list, name="session-list"),
    path("sessions/<int:pk>/", views.session_detail, name="session"),
    path("passes/", views.pass_list, name="pass-list"),
    path("passes/<int:pk>/", views.pass_detail, name="pass"),
    path("incidents/", views.incident_list, name="incident-list"),
]
