# kvctl launch through Slurm, on hosts of their own: network namespaces in which its daemons run.

load ../cli/help
load cluster

setup_file()
{
    cluster_needs salloc srun slurmctld slurmd munged || return 0
    cluster_slurm
}

teardown_file() { cluster_down; }

@test "slurm: sums" {
    job_sums --launcher slurm
}

@test "slurm: a killed rank is named on every host" {
    job_killed --launcher slurm
}

@test "slurm: a rank that fails" {
    job_fails --launcher slurm
}

@test "slurm: a job that waits for others longer than it may" {
    serve n0 salloc -Q -n 8 sleep 1000
    until [ -n "$(on n0 squeue -h -t running)" ]; do sleep 0.1; done
    run on n0 timeout 100 kvctl launch --launcher slurm -n 4 --queue-timeout 2 -c 'print 1'
    on n0 scancel -u root
    assert_failure 6
    assert_line "kvctl: error[timeout]: launch: slurm did not start the job within 2 s"
    assert_nothing_left
}

@test "slurm: Ctrl-C takes the job back" {
    job_interrupted slurm squeue -h
}
