/* In place of the library of MPI: that of Open MPI 5 keeps sockets which it opens as it is loaded,
 * and ends the process where it lacks memory. */
#include <stdio.h>

int MPI_Get_library_version(char *text, int *n);

int MPI_Get_library_version(char *text, int *n)
{
    *n = sprintf(text, "Open MPI v0, without ranks");
    return 0;
}
