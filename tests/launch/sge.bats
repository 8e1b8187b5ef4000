# kvctl launch through Grid Engine, on hosts of their own: network namespaces in which its daemons
# run.

load ../cli/help
load cluster

setup_file()
{
    cluster_needs qsub qconf sge_qmaster sge_execd || return 0
    cluster_sge
}

teardown_file() { cluster_down; }

@test "sge: sums" {
    job_sums --launcher sge
}

@test "sge: a killed rank is named on every host" {
    job_killed --launcher sge
}

@test "sge: a rank that fails" {
    job_fails --launcher sge
}

@test "sge: a job that is larger than the queue, which never starts" {
    run -6 on n0 timeout 100 kvctl launch --launcher sge -n 8 -s 1 --queue-timeout 2 -c 'print 1'
    assert_line "kvctl: error[timeout]: launch: sge did not start the job within 2 s"
    assert_nothing_left
}

@test "sge: Ctrl-C takes the job back" {
    job_interrupted sge qstat
}
