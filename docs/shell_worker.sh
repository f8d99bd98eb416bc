#!/usr/bin/env bash
# A whole worker: URL=http://127.0.0.1:8000 TOKEN_FILE=token docs/shell_worker.sh works on one run with a `script`
# agent until its lease ends, with your own rights: to be read, beside worker-protocol.md, rather than used.
set -euo pipefail; umask 077
work=$(mktemp -d) number=0; mkfifo "$work/never"
trap 'kill $(jobs -p) 2>/dev/null && wait || true; rm -rf "$work"' EXIT

call() { # METHOD PATH [words for curl]: prints the body; the same call again while the server is away
    local method=$1 path=$2 code body try; shift 2
    body=$(mktemp -p "$work")
    for try in 1 2 4 8 16; do
        code=$(curl -sS -o "$body" -w '%{http_code}' -X "$method" -H @"$work/headers" "$URL/api/v1/$path" "$@") || code=000
        [[ $code != 2* ]] || { cat "$body"; return; }
        [[ $code =~ ^(000|429|503)$ ]] && sleep "$try" || break
    done
    echo "$method $path: $code $(cat "$body")" >&2; return 1
}
upload() { # KIND FILE TYPE: prints the artifact's id
    call POST "runs/$run/artifacts" -H "Artifact-Kind: $1" -H "Content-Type: $3" --data-binary @"$2" \
        -H "Content-Digest: sha-256=:$(openssl dgst -sha256 -binary "$2" | base64):" | jq -r .id
}
post() { # TYPE ID PAYLOAD: one event, `$id` in its payload being ID; then what the answer says
    number=$((number + 1))
    jq -n --arg type "$1" --arg id "$2" "{type: \$type, payload: $3}" >"$work/event"
    touch "$work/posting" # a beat may be refused for what this ends, before we hear that it did
    call POST "runs/$run/events" -H 'Content-Type: application/json' --data @"$work/event" \
        -H "Idempotency-Key: f$fence-$number-$1" >"$work/state"
    status=$(jq -r .run.status "$work/state"); echo "$1 → $status" >&2
    [ "$(jq -r .lease "$work/state")" != null ] || exit 0; rm "$work/posting" # no lease: the run has left our hands
    case $(jq -r .run.directive "$work/state") in
        cancel) post run_cancelled "" '{cleanup: "done", process_group_gone: true}' ;;
        pause) [ "$1" = tool_requested ] || post run_interrupted "" '{}' ;;
    esac
}
field() { jq -r "$1" "$work/resume"; }
checkout() { # FOLDER: the base commit, clean
    rm -rf "$1"; git clone -q -- "$(field .repository.url)" "$1"
    base=${base:-$(git -C "$1" rev-parse "origin/$(field .repository.base_branch)")}
    git -C "$1" checkout -q --detach "$base"
}
shell() { # FOLDER LINE: runs it there with nothing of this environment, output in the log
    (cd "$1" && env -i PATH="$PATH" HOME="$work" AGENT_FEEDBACK_FILE="$work/feedback" sh -c "$2") >"$work/log" 2>&1 </dev/null
}
edit() { # EXECUTING: the contract's script as one step, then the difference that it leaves
    local step outcome=succeeded line
    step="$run.a$(field .attempt.number).f$fence-$number" line=$(field .task.contract.agent.command)
    post tool_requested "$step" '{operation_id: $id, tool: "script", arguments: {}, label: "Editing files"}'
    checkout "$work/tree"
    field '.feedback.text // empty' >"$work/feedback"
    shell "$work/tree" "$line" || outcome=failed
    post tool_completed "$step" "{operation_id: \$id, outcome: \"$outcome\",
        output_artifact_id: \"$(upload output "$work/log" text/plain)\"}"
    [ $outcome = succeeded ] || { post attempt_finished "" '{outcome: "failed", failure: {category: "TOOL_FAILED",
        reason: "agent_failed", summary: "the script failed"}}'; return; }
    git -C "$work/tree" -c core.hooksPath=/dev/null -c core.fsmonitor= add --all
    git -C "$work/tree" -c core.fsmonitor= diff --cached --binary --no-ext-diff --no-textconv "$base" >"$work/patch"
    [ -s "$work/patch" ] || post non_retryable_failure "" \
        '{failure: {category: "JUDGE_REJECTED", reason: "no_changes", summary: "nothing was changed"}}'
    post patch_created "$(upload patch "$work/patch" text/x-diff)" '{patch_artifact_id: $id}'
}
verify() { # VERIFYING: each check, on a checkout of its own with the patch that was handed in
    local name line code verdict=passed; checkout "$work/verify"
    call GET "artifacts/$(field .patch.id)" | git -C "$work/verify" apply --index -
    field '{patch_sha256: .patch.sha256, commands: []}' >"$work/report"
    while IFS=$'\t' read -r name line; do
        code=0
        shell "$work/verify" "$line" || { code=$? verdict=failed_retryable; }
        jq --arg name "$name" --arg line "$line" --argjson code $code --rawfile log "$work/log" '.commands +=
            [{name: $name, command: $line, exit_code: $code, duration_ms: 0}] | if $code == 0 then . else
            .feedback = "\($name) ended with \($code):\n\($log[-2000:])" end' "$work/report" >"$work/next"; mv "$work/next" "$work/report"
    done < <(field '.task.contract.verifiers[] | [.name, .command] | @tsv')
    post "verification_$verdict" "$(upload verification_report "$work/report" application/json)" '{verification_report_id: $id}'
}
printf 'Authorization: Bearer %s\n' "$(cat "$TOKEN_FILE")" >"$work/headers"
call POST leases -H 'Content-Type: application/json' -H "Idempotency-Key: ${work##*.}" --data '{"wait_seconds": 5}' >"$work/claim"
[ -s "$work/claim" ] || exit 0 # nothing to do
read -r run fence interval status base < <(jq -r '[.run.id, .lease.fence, .lease.heartbeat_interval_seconds,
    .run.status, .run.base_commit // ""] | join(" ")' "$work/claim")
printf 'Lease-Token: %s\n' "$(jq -r .lease.token "$work/claim")" >>"$work/headers"
pause() { ! read -rt "$1" <>"$work/never"; } # as sleep does, but leaves no process behind
(trap exit TERM; while pause "$interval"; do call POST "runs/$run/heartbeat" >/dev/null || break; done
    while [ -e "$work/posting" ]; do pause 0.1; done; kill $$) & # the lease is lost: stop at once
while call GET "runs/$run/resume" >"$work/resume"; do
    case $status in
        LEASED) post worker_started "" '{worker_version: "shell 1", isolation: "none"}' ;;
        PREPARING) checkout "$work/tree"; post sandbox_ready "$base" '{sandbox_id: "shell", base_commit: $id}' ;;
        CONTEXT_BUILDING) post context_ready "" '{summary: "a checkout"}' ;;
        PLANNING)
            field '{files: (.task.contract.allowed_paths + ["**"])[:1], risks: [], must_not_change: [], summary: "Run it.",
                verifiers: [.task.contract.verifiers[].name], stop_condition: "it has run"}' >"$work/plan"
            post plan_created "$(upload plan "$work/plan" application/json)" '{plan_artifact_id: $id}' ;;
        EXECUTING) edit ;;
        PATCH_READY) post verification_started "" "{commands: $(field '[.task.contract.verifiers[].name]')}" ;;
        VERIFYING) verify ;;
        JUDGING) # No judge: a pass that nobody is sure of asks a person.
            field '{subject_sha256: .patch.sha256, verdict: "pass", confidence: 0, reasons: ["its checks passed"]}' >"$work/judged"
            post judge_passed "$(upload judge_report "$work/judged" application/json)" '{judge_report_id: $id}' ;;
        *) touch "$work/posting"; call POST "runs/$run/release" -H 'Content-Type: application/json' --data '{"reason": "not mine"}'; exit ;;
    esac
done
