# Jobs whose processes and folders must be gone when launch has ended.

# job [-STATUS] ARGUMENTS...: runs kvctl launch, which must end with this status, whose output is then $output,
# and looks that it left nothing. LIMIT: seconds. A file may have JOB_OPTIONS.
job()
{
    local found status_wanted=()
    [[ $1 =~ ^-[0-9]+$ ]] && status_wanted=("$1") && shift
    export TMPDIR=$BATS_TEST_TMPDIR KVCTL_JOBS=$BATS_TEST_TMPDIR/jobs
    run "${status_wanted[@]}" timeout "${LIMIT:-100}" kvctl launch ${JOB_OPTIONS:-} "$@"
    by_rank
    found=$(grep -lzs "^KVSTORE_RUN_DIR=$TMPDIR" /proc/[0-9]*/environ || true)
    assert_equal "processes left: $found" "processes left: "
    found=$(find "$TMPDIR" -maxdepth 1 -name 'kvctl-*')
    assert_equal "folders left: $found" "folders left: "
}
