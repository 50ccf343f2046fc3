// Preloaded into a child: makes fdatasync slow or fail, or the write of LMDB's meta page, or all writes to files, as the file named by
// LOG_SYNC_CONTROL says: delay of a sync in ms, error of a sync, error of the write of a meta page, error of any write at a position.
#define _GNU_SOURCE
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/uio.h>

struct order {
  int delay_ms, sync_error, meta_error, write_error;
};

static struct order read_order(void) {
  const char *path = getenv("LOG_SYNC_CONTROL");
  FILE *file = path ? fopen(path, "r") : NULL;
  struct order order = {0, 0, 0, 0};
  if (file) {
    int read = fscanf(file, "%d %d %d %d", &order.delay_ms, &order.sync_error, &order.meta_error, &order.write_error);
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
  struct order order = read_order();
  errno = order.write_error;
  if (errno == 0 && at < 2 * sysconf(_SC_PAGESIZE) && length <= 512) errno = order.meta_error;
  return errno != 0;
}

// LMDB writes pages that lie together after a seek; pipes and sockets are written to in the same way.
static int refuses_file(int fd) {
  struct stat stats;
  if (fstat(fd, &stats) || !S_ISREG(stats.st_mode)) return 0;
  errno = read_order().write_error;
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
ssize_t writev(int fd, const struct iovec *parts, int count) {
  return refuses_file(fd) ? -1 : syscall(SYS_writev, fd, parts, count);
}
ssize_t pwritev(int fd, const struct iovec *parts, int count, off_t at) {
  return refuses_file(fd) ? -1 : syscall(SYS_pwritev, fd, parts, count, at, 0);
}
ssize_t pwritev64(int fd, const struct iovec *parts, int count, off_t at) {
  return refuses_file(fd) ? -1 : syscall(SYS_pwritev, fd, parts, count, at, 0);
}
