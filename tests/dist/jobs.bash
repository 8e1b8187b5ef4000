# Jobs whose processes and folders must be gone when launch has ended.

# job ARGUMENTS...: runs kvctl launch, whose output is then $output, and looks that it left nothing. LIMIT: seconds.
job()
{
    local found
    export TMPDIR=$BATS_TEST_TMPDIR KVCTL_JOBS=$BATS_TEST_TMPDIR/jobs
    run timeout "${LIMIT:-100}" kvctl launch "$@"
    by_rank
    found=$(grep -lzs "^KVSTORE_RUN_DIR=$TMPDIR" /proc/[0-9]*/environ || true)
    assert_equal "processes left: $found" "processes left: "
    found=$(find "$TMPDIR" -maxdepth 1 -name 'kvctl-*')
    assert_equal "folders left: $found" "folders left: "
}
