# A throw-away PostgreSQL server of this run alone. Source it, then: start_postgres, "$POSTGRES_URL", stop_postgres.
# Installs the server where it is missing and this is Debian or a relative of it.

POSTGRES_FOLDER=""
POSTGRES_URL=""

_postgres_binaries() {
    local newest
    newest=$(ls -d /usr/lib/postgresql/*/bin 2>/dev/null | sort -V | tail -n 1)
    if [ -n "$newest" ]; then
        echo "$newest"
    elif command -v pg_ctl >/dev/null && command -v initdb >/dev/null; then
        dirname "$(command -v pg_ctl)"
    fi
}

# The server refuses to run as root; then everything of it runs as its own user.
_as_postgres() {
    if [ "$(id -u)" -eq 0 ]; then
        runuser -u postgres -- "$@"
    else
        "$@"
    fi
}

start_postgres() {
    local binaries port
    binaries=$(_postgres_binaries)
    if [ -z "$binaries" ]; then
        echo "== installing PostgreSQL"
        DEBIAN_FRONTEND=noninteractive apt-get update -qq
        DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends postgresql >/dev/null
        binaries=$(_postgres_binaries)
    fi
    POSTGRES_BINARIES=$binaries
    POSTGRES_FOLDER=$(mktemp -d /tmp/magic-context-pg.XXXXXX)
    if [ "$(id -u)" -eq 0 ]; then
        chown postgres "$POSTGRES_FOLDER"
    fi
    port=$(python3 -c 'import socket; s = socket.socket(); s.bind(("127.0.0.1", 0)); print(s.getsockname()[1])')
    (
        cd "$POSTGRES_FOLDER"
        _as_postgres "$binaries/initdb" -D "$POSTGRES_FOLDER/data" -U postgres -A trust -E UTF8 --locale=C >/dev/null
        _as_postgres "$binaries/pg_ctl" -D "$POSTGRES_FOLDER/data" -l "$POSTGRES_FOLDER/log" -w -t 60 \
            -o "-p $port -k $POSTGRES_FOLDER -c listen_addresses=127.0.0.1 -c fsync=off -c max_connections=200" \
            start >/dev/null
    ) || { cat "$POSTGRES_FOLDER/log" 2>/dev/null; return 1; }
    POSTGRES_URL="postgresql://postgres@127.0.0.1:$port/postgres"
}

stop_postgres() {
    if [ -n "$POSTGRES_FOLDER" ]; then
        (
            cd "$POSTGRES_FOLDER"
            _as_postgres "$POSTGRES_BINARIES/pg_ctl" -D "$POSTGRES_FOLDER/data" -m immediate stop >/dev/null 2>&1
        ) || true
        rm -rf "$POSTGRES_FOLDER"
        POSTGRES_FOLDER=""
    fi
}
