// Preloaded into a child: makes fdatasync slow or fail, as the file named by LOG_SYNC_CONTROL says.
#define _GNU_SOURCE
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>
#include <sys/syscall.h>

static int obey(void) {
  const char *path = getenv("LOG_SYNC_CONTROL");
  FILE *file = path ? fopen(path, "r") : NULL;
  int delay_ms = 0, error = 0;
  if (file) {
    if (fscanf(file, "%d %d", &delay_ms, &error) < 1) delay_ms = 0;
    fclose(file);
  }
  if (delay_ms) usleep(delay_ms * 1000);
  errno = error;
  return error ? -1 : 0;
}

int fdatasync(int fd) { return obey() ? -1 : (int)syscall(SYS_fdatasync, fd); }
int fsync(int fd) { return obey() ? -1 : (int)syscall(SYS_fsync, fd); }
