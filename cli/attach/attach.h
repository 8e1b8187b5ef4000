/* kvctl attach: a prompt on a job that runs, which reads and changes nothing. kvctl jobs: the jobs
 * of this user that run here, or whose launcher does. kvctl launch --grow: one worker more. */
#ifndef ATTACH_ATTACH_H
#define ATTACH_ATTACH_H

/* The words behind `attach`, `jobs` and `launch --grow`; they return the exit code. */
int attach_main(int argc, char **argv);
int jobs_main(int argc, char **argv);
int grow_main(int argc, char **argv);

#endif
