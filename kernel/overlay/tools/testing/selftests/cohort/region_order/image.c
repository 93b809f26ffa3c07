// SPDX-License-Identifier: GPL-2.0-only
/* A file on a file system that has large pages. */
#include "order.h"

#include <linux/loop.h>
#include <sys/ioctl.h>
#include <sys/mount.h>

/* the format of EROFS: fs/erofs/erofs_fs.h */
#define EROFS_BLOCK	4096u
#define EROFS_INODES	36	/* in units of 32 bytes: behind the super block */
#define EROFS_DATA	16	/* in blocks, for pages of up to 64 kB */

struct erofs_super {
	__u32 magic, checksum, feature_compat;
	__u8 blkszbits, sb_extslots;
	__u16 root_nid;
	__u64 inos, build_time;
	__u32 build_time_nsec, blocks, meta_blkaddr, xattr_blkaddr;
};

struct erofs_inode {
	__u16 format, xattr_icount, mode, nlink;
	__u32 size, reserved, blkaddr, ino;
	__u16 uid, gid;
	__u32 reserved2;
};

struct erofs_dirent {
	__u32 nid, nid_high;
	__u16 nameoff;
	__u8 type, reserved;
};

void put(int fd, const void *what, size_t size, off_t at)
{
	must(pwrite(fd, what, size, at) == (ssize_t)size, "image: %s", strerror(errno));
}

/*
 * Make a file on EROFS, which has large folios and an image format that is easy
 * to write. The file holds @pages of FILE_TAG and @more bytes of the next page;
 * closing it removes it.
 */
int make_image(size_t pages, size_t more)
{
	size_t size = pages * page_size + more;
	struct erofs_super super = {
		.magic = 0xe0f5e1e2, .blkszbits = 12, .root_nid = EROFS_INODES, .inos = 2,
		.blocks = EROFS_DATA + (size + EROFS_BLOCK - 1) / EROFS_BLOCK,
	};
	struct erofs_inode root = {
		.mode = S_IFDIR | 0755, .nlink = 2, .blkaddr = 1, .ino = 1,
	}, node = {
		.mode = S_IFREG | 0644, .nlink = 1, .size = size, .blkaddr = EROFS_DATA, .ino = 2,
	};
	struct erofs_dirent names[3] = {
		{ EROFS_INODES, 0, sizeof(names), 2 },
		{ EROFS_INODES, 0, sizeof(names) + 1, 2 },
		{ EROFS_INODES + 1, 0, sizeof(names) + 3, 1 },
	};
	static const char text[] = "...data";
	int image = make_file("tmpfs", 0), control, loop, fd, n;
	struct loop_config config = {
		.fd = image,
		.info.lo_flags = LO_FLAGS_AUTOCLEAR | LO_FLAGS_READ_ONLY,
	};
	char path[64], dir[] = "/tmp/order.XXXXXX";
	char *page;

	root.size = sizeof(names) + strlen(text);
	put(image, &super, sizeof(super), 1024);
	put(image, &root, sizeof(root), EROFS_INODES * 32);
	put(image, &node, sizeof(node), (EROFS_INODES + 1) * 32);
	put(image, names, sizeof(names), EROFS_BLOCK);
	put(image, text, strlen(text), EROFS_BLOCK + sizeof(names));
	page = aligned_alloc(page_size, page_size);
	must(page, "out of memory");
	for (size_t i = 0; i < pages + !!more; i++) {
		page_fill(page, FILE_TAG(i));
		put(image, page, i < pages ? page_size : more,
		    EROFS_DATA * EROFS_BLOCK + i * page_size);
	}
	free(page);
	must_call(ftruncate(image, (off_t)super.blocks * EROFS_BLOCK));

	control = open("/dev/loop-control", O_RDWR | O_CLOEXEC);
	if (control < 0)
		skip("no loop devices");
	/* another process may take it first */
	for (int i = 0;; i++) {
		n = ioctl(control, LOOP_CTL_GET_FREE);
		must(n >= 0, "LOOP_CTL_GET_FREE: %s", strerror(errno));
		snprintf(path, sizeof(path), "/dev/loop%d", n);
		loop = open(path, O_RDONLY | O_CLOEXEC);
		must(loop >= 0, "%s: %s", path, strerror(errno));
		if (!ioctl(loop, LOOP_CONFIGURE, &config))
			break;
		must(errno == EBUSY && i < 100, "LOOP_CONFIGURE: %s", strerror(errno));
		close(loop);
	}
	must(mkdtemp(dir), "%s: %s", dir, strerror(errno));
	if (mount(path, dir, "erofs", MS_RDONLY, NULL)) {
		int err = errno;

		rmdir(dir);
		if (err == ENODEV)
			skip("no EROFS");
		fail("mount: %s", strerror(err));
	}
	snprintf(path, sizeof(path), "%s/data", dir);
	fd = open(path, O_RDONLY | O_CLOEXEC);
	must(fd >= 0, "%s: %s", path, strerror(errno));
	must_call(umount2(dir, MNT_DETACH));
	rmdir(dir);
	close(loop);
	close(control);
	close(image);
	return fd;
}
