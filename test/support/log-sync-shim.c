// Preloaded into a child: makes fdatasync slow or fail, or the write of LMDB's meta page, as the file named by LOG_SYNC_CONTROL says:
// delay of a sync in ms, error of a sync, error of the write of a meta page.
#define _GNU_SOURCE
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>
#include <sys/syscall.h>

struct order {
  int delay_ms, sync_error, meta_error;
};

static struct order read_order(void) {
  const char *path = getenv("LOG_SYNC_CONTROL");
  FILE *file = path ? fopen(path, "r") : NULL;
  struct order order = {0, 0, 0};
  if (file) {
    int read = fscanf(file, "%d %d %d", &order.delay_ms, &order.sync_error, &order.meta_error);
    fclose(file);
    if (read < 1) order.delay_ms = 0;
  }
  return order;
}

static int obey(void) {
  struct order order = read_order();
  if (order.delay_ms) usleep(order.delay_ms * 1000);
  errno = order.sync_error;
  return order.sync_error ? -1 : 0;
}

// A meta page's content is written alone; the first two pages are theirs.
static int refuses(size_t length, off_t at) {
  if (at >= 2 * sysconf(_SC_PAGESIZE) || length > 512) return 0;
  errno = read_order().meta_error;
  return errno != 0;
}

int fdatasync(int fd) { return obey() ? -1 : (int)syscall(SYS_fdatasync, fd); }
int fsync(int fd) { return obey() ? -1 : (int)syscall(SYS_fsync, fd); }

ssize_t pwrite(int fd, const void *bytes, size_t length, off_t at) {
  return refuses(length, at) ? -1 : syscall(SYS_pwrite64, fd, bytes, length, at);
}
ssize_t pwrite64(int fd, const void *bytes, size_t length, off_t at) {
  return refuses(length, at) ? -1 : syscall(SYS_pwrite64, fd, bytes, length, at);
}
