#!/usr/bin/env bash
# Runs a command while it holds a lock, with curl and jq. README.md says what it promises and what it does not.
# For bash 5 on Linux.
set -uo pipefail

usage() {
    echo "usage: lock.sh NAME [--ttl 30s] [--wait 60s] -- COMMAND..." >&2
    exit 64
}

fail() { # CODE MESSAGE
    echo "lock.sh: $2" >&2
    exit "$1"
}

# Reads a duration such as 500ms, 30s, 2m or 1h into MILLIS.
millis() {
    [[ $1 =~ ^([0-9]{1,8})(ms|s|m|h)$ ]] || usage
    local -A unit=([ms]=1 [s]=1000 [m]=60000 [h]=3600000)
    MILLIS=$((10#${BASH_REMATCH[1]} * unit[${BASH_REMATCH[2]}]))
}

# Prints milliseconds as seconds.
seconds() {
    printf '%d.%03d' $(($1 / 1000)) $(($1 % 1000))
}

# Reads the clock into NOW, in milliseconds. It counts the time for which the machine is suspended, and nobody sets it.
now() {
    local uptime
    read -r uptime _ </proc/uptime
    NOW=$((10#${uptime/./} * 10))
}

# Does nothing for MILLISECONDS, less than 1000 and without a process that would outlive this one: nobody writes into that pipe.
pause() { # MILLISECONDS
    local time
    printf -v time '0.%03d' "$1"
    read -r -t "$time" -u "$never"
}

# Calls METHOD with the JSON of $dir/METHOD, until the clock shows UNTIL. Neither the bearer token nor the body is in a command
# line, where ps would show it. The answer is in $dir/reply; returns the exit code that goes with a failure, and puts its message
# into `problem`.
call() { # METHOD UNTIL
    local options=(--silent --show-error --output "$dir/reply" --write-out '%{http_code}') code
    options+=(--header 'content-type: application/json' --data-binary "@$dir/$1" --header @<(authorization))
    [[ -z ${LEASEHOLD_CA:-} ]] || options+=(--cacert "$LEASEHOLD_CA")
    rm -f "$dir/reply"
    curl "${options[@]}" "$endpoint/leasehold.v1.LockService/$1" >"$dir/status" 2>"$dir/error" {never}>&- &
    curl=$!
    # curl's own --max-time does not count the time for which the machine is suspended.
    while kill -0 "$curl" 2>/dev/null && now && ((NOW < $2)); do
        pause 20
    done
    kill "$curl" 2>/dev/null
    wait "$curl"
    code=$?
    curl=
    case $code:$(<"$dir/status") in
        0:200) return 0 ;;
        0:401 | 0:403) code=77 ;;
        0:400) code=64 ;;
        0:429 | 0:5??) code=69 ;;
        0:*) code=1 ;;
        60:* | 77:*) code=77 ;;
        *) code=69 ;;
    esac
    problem=$(jq -re .message "$dir/reply" 2>/dev/null || cat "$dir/error")
    problem=${problem:-no answer in time}
    return "$code"
}

authorization() {
    [[ -z ${LEASEHOLD_TOKEN_FILE:-} ]] || printf 'authorization: Bearer %s\n' "$(<"$LEASEHOLD_TOKEN_FILE")"
}

# Notes until when the lease lasts that was asked for at SENT, from the answer's TTL.
lease() { # SENT
    ttl=$(jq -r '.ttl | rtrimstr("s") | tonumber * 1000 | floor' "$dir/reply")
    local margin=$((ttl / 3 < 5000 ? ttl / 3 : 5000))
    stop_at=$(($1 + ttl - margin))
    kill_at=$(($1 + ttl - margin / 4))
    renew_at=$(($1 + ttl / 3))
}

owned() { # JQ
    name=$name owner=$owner ttl=$(seconds "$requested") jq -nc "$1"
}

# Renews the lease, by the time UNTIL. Fails with the exit code of `call`, or with 70 if the lock was lost.
renew() { # UNTIL
    local sent=$NOW
    owned '{name: env.name, ownerId: env.owner, ttl: (env.ttl + "s")}' >"$dir/Renew"
    call Renew "$1" || return
    [[ $(jq -r .renewed "$dir/reply") == true ]] || return 70
    lease "$sent"
}

# Renews the lease again and again, and stops the job if that fails for too long or the lock was lost: a process of its own, beside
# the script and the job, so that neither has to live for it.
keep() {
    trap - HUP INT TERM EXIT
    local code
    : >"$dir/kept"
    # Without the script, nobody waits for the job or releases the lock.
    while kill -0 $$ 2>/dev/null && now && ((NOW < stop_at)); do
        if ((NOW < renew_at)); then
            pause $((renew_at - NOW < 500 ? renew_at - NOW : 500))
            continue
        fi
        renew "$stop_at"
        code=$?
        if ((code == 70)); then
            # The next holder may already work.
            kill_at=0
            break
        elif ((code != 0)); then
            echo "lock.sh: failed to renew \"$name\": $problem" >&2
            renew_at=$((NOW + ttl / 12))
        fi
    done
    : >"$dir/stopped"
    ((kill_at == 0)) || kill -TERM -- "-$job" 2>/dev/null
    while now && ((NOW < kill_at)) && kill -0 -- "-$job" 2>/dev/null; do
        pause 50
    done
    kill -KILL -- "-$job" 2>/dev/null
    kill -0 $$ 2>/dev/null || rm -rf "$dir"
}

name=${1:-} ttl=30000 wait=0
[[ -n $name && $name != -* ]] || usage
shift
while [[ ${1:-} == --ttl || ${1:-} == --wait ]]; do
    millis "${2:-}"
    [[ $1 == --ttl ]] && ttl=$MILLIS || wait=$MILLIS
    shift 2
done
[[ ${1:-} == -- && $# -ge 2 ]] || usage
shift

endpoint=${LEASEHOLD_ENDPOINT:-http://127.0.0.1:7420}
endpoint=${endpoint%/}
case ${LEASEHOLD_TOKEN_FILE:+token} in
    token)
        [[ -r $LEASEHOLD_TOKEN_FILE ]] || fail 64 "cannot read LEASEHOLD_TOKEN_FILE"
        [[ $endpoint =~ ^(https://|http://(127\.0\.0\.1|localhost)[:/]) ]] || fail 64 "a token is sent to other machines over https:// only"
        ;;
esac
dir=$(mktemp -d) || exit 1
curl=
trap 'code=$?; [[ -z $curl ]] || kill "$curl" 2>/dev/null; rm -rf "$dir"; exit "$code"' EXIT
trap 'exit 129' HUP
trap 'exit 130' INT
trap 'exit 143' TERM
mkfifo -m 600 "$dir/never" || exit 1
exec {never}<>"$dir/never"

# An answer can be lost. The same request with the same key takes over what the first one got, rather than wait behind it.
key=$(</proc/sys/kernel/random/uuid)
problem=
now
wait_until=$((NOW + wait))
while :; do
    now
    sent=$NOW
    left=$((wait_until > NOW ? wait_until - NOW : 0))
    name=$name ttl=$(seconds "$ttl") wait=$(seconds "$left") key=$key client="$(hostname):$$" jq -nc \
        '{name: env.name, ttl: (env.ttl + "s"), wait: (env.wait + "s"), requestKey: env.key, clientName: env.client}' \
        >"$dir/Acquire"
    call Acquire $((NOW + left + 5000)) && break
    code=$?
    now
    ((code == 69 && NOW < wait_until + 2000)) || fail "$code" "failed to acquire \"$name\": $problem"
    pause 300
done
[[ $(jq -r .outcome "$dir/reply") == ACQUIRE_OUTCOME_GRANTED ]] || fail 75 "\"$name\" is not free"
owner=$(jq -r .ownerId "$dir/reply")
token=$(jq -r .fencingToken "$dir/reply")
requested=$ttl
lease "$sent"
now
if ((NOW >= renew_at)); then
    # It waited. The TTL counts from the grant, and nothing says when that was.
    renew $((NOW + 5000))
    code=$?
    ((code != 70)) || fail 70 "\"$name\" was lost before the command began"
    ((code == 0)) || fail "$code" "failed to renew \"$name\": $problem"
fi

# Process groups of their own: for the job, so that all of it can be stopped, and for its keeper, so that nothing stops both.
set -m
(
    trap - HUP INT TERM EXIT
    # Not before somebody stops it in time.
    until [[ -e $dir/kept ]]; do
        kill -0 $$ 2>/dev/null || exit 70
        pause 5
    done
    exec {never}>&-
    export LEASEHOLD_LOCK_NAME=$name LEASEHOLD_FENCING_TOKEN=$token
    exec "$@"
) <&0 &
job=$!
keep &
keeper=$!
set +m
for signal in HUP INT TERM QUIT USR1 USR2; do
    # shellcheck disable=SC2064 # the job and the signal of now
    trap "kill -$signal -- -$job 2>/dev/null" "$signal"
done
while kill -0 "$job" 2>/dev/null; do
    kill -0 "$keeper" 2>/dev/null || { : >"$dir/stopped" && kill -KILL -- "-$job"; } 2>/dev/null
    pause 50
done
wait "$job"
code=$?
{ kill -KILL -- "-$keeper" && wait "$keeper"; } 2>/dev/null
[[ ! -e $dir/stopped ]] || fail 70 "\"$name\" was lost or could not be renewed, and the command was stopped"

owned '{name: env.name, ownerId: env.owner}' >"$dir/Release"
now
call Release $((NOW + 5000)) || echo "lock.sh: failed to release \"$name\"; it lasts until its TTL is over: $problem" >&2
exit "$code"
