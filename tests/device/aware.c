/* An MPI that reads the memory of GPUs, of those of fake_driver.cc: loaded before Open MPI it says
 * that it does, and takes what lies there from where the driver lets it be read; as late as it
 * may, when it has been asked some times whether it has. $AWARE_FAIL is "begin" or "end", where it
 * refuses messages from a GPU, or "sender" or "receiver": that one is killed while the first is
 * under way. */
#include <mpi.h>
#include <signal.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

int MPIX_Query_cuda_support(void);

enum { HELD = 16, LATE = 30 };

/* Messages that were not begun yet. */
static struct held {
    MPI_Request *request; /* where it will be; NULL: none */
    const void *block;
    int bytes, to, tag, asked;
    MPI_Comm comm;
} held[HELD];

/* The driver's, if it is there: NULL where p is not in the memory of its devices. */
const void *(*fake_gpu_inside)(const void *p, int64_t bytes);

int MPIX_Query_cuda_support(void)
{
    return 1;
}

static bool is_to_fail(const char *what)
{
    const char *text = getenv("AWARE_FAIL");
    return text && strcmp(text, what) == 0;
}

static struct held *find(const MPI_Request *request)
{
    for (int i = 0; i < HELD; i++)
        if (held[i].request == request)
            return &held[i];
    return NULL;
}

int MPI_Isend(const void *buf, int count, MPI_Datatype type, int to, int tag, MPI_Comm comm,
              MPI_Request *request)
{
    if (!fake_gpu_inside || !fake_gpu_inside(buf, 0))
        return PMPI_Isend(buf, count, type, to, tag, comm, request);
    struct held *h = find(NULL);
    if (!h || is_to_fail("begin"))
        return MPI_ERR_BUFFER;
    *h = (struct held){request, buf, count, to, tag, 0, comm};
    return MPI_SUCCESS;
}

int MPI_Test(MPI_Request *request, int *flag, MPI_Status *status)
{
    struct held *h = find(request);
    *flag = 0;
    if (h && ++h->asked < LATE)
        return MPI_SUCCESS;
    if (h && is_to_fail("end"))
        return MPI_ERR_BUFFER;
    if (h) {
        const void *there = fake_gpu_inside(h->block, h->bytes);
        PMPI_Isend(there ? there : h->block, h->bytes, MPI_BYTE, h->to, h->tag, h->comm, request);
        h->request = NULL;
        if (is_to_fail("sender"))
            raise(SIGKILL);
    }
    return PMPI_Test(request, flag, status);
}

/* Only what was told before is received of somebody. */
int MPI_Irecv(void *buf, int count, MPI_Datatype type, int from, int tag, MPI_Comm comm,
              MPI_Request *request)
{
    if (from != MPI_ANY_SOURCE && is_to_fail("receiver"))
        raise(SIGKILL);
    return PMPI_Irecv(buf, count, type, from, tag, comm, request);
}
