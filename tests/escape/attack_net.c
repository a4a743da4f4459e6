/* SPDX-License-Identifier: Apache-2.0 */
/* attack_net - sockets: families that are attack surface, and ways out of the network
 * none. */
#include "attack.h"

#include <arpa/inet.h>
#include <errno.h>
#include <linux/if.h>
#include <linux/netlink.h>
#include <linux/rtnetlink.h>
#include <netinet/in.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

/* socket FAMILY TYPE PROTOCOL, as numbers. */
static int make_socket(char **arg)
{
	return judge(socket((int)strtol(arg[0], NULL, 0), (int)strtol(arg[1], NULL, 0),
			    (int)strtol(arg[2], NULL, 0)),
		     "socket");
}

static int connect_inet(const char *ip, const char *port, int type)
{
	struct sockaddr_in a = {.sin_family = AF_INET,
				.sin_port = htons((uint16_t)strtoul(port, NULL, 10))};
	int fd = socket(AF_INET, type | SOCK_CLOEXEC, 0);

	inet_pton(AF_INET, ip, &a.sin_addr);
	if (fd < 0)
		return -1;
	if (connect(fd, (void *)&a, sizeof(a)) < 0)
		return -1;
	return type == SOCK_DGRAM && send(fd, "x", 1, 0) != 1 ? -1 : 0;
}

static int tcp(char **arg)
{
	return judge(connect_inet(arg[0], arg[1], SOCK_STREAM), "tcp connect");
}

static int udp(char **arg)
{
	return judge(connect_inet(arg[0], arg[1], SOCK_DGRAM), "udp send");
}

static int udp6(char **arg)
{
	struct sockaddr_in6 a = {.sin6_family = AF_INET6, .sin6_port = htons(53)};
	int fd = socket(AF_INET6, SOCK_DGRAM | SOCK_CLOEXEC, 0);

	inet_pton(AF_INET6, arg[0], &a.sin6_addr);
	return judge(fd < 0 ? -1 : connect(fd, (void *)&a, sizeof(a)), "udp6 connect");
}

static socklen_t abstract_name(struct sockaddr_un *a, const char *name)
{
	*a = (struct sockaddr_un){.sun_family = AF_UNIX};
	snprintf(a->sun_path + 1, sizeof(a->sun_path) - 1, "%s", name);
	return (socklen_t)(offsetof(struct sockaddr_un, sun_path) + 1 +
			   strlen(a->sun_path + 1));
}

static int abstract_connect(char **arg)
{
	struct sockaddr_un a;
	socklen_t n = abstract_name(&a, arg[0]);
	int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);

	return judge(fd < 0 ? -1 : connect(fd, (void *)&a, n),
		     "abstract socket of the host");
}

static int unix_connect(char **arg)
{
	struct sockaddr_un a = {.sun_family = AF_UNIX};
	int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);

	snprintf(a.sun_path, sizeof(a.sun_path), "%s", arg[0]);
	return judge(fd < 0 ? -1 : connect(fd, (void *)&a, sizeof(a)), arg[0]);
}

static int serve(int fd)
{
	if (fd < 0 || listen(fd, 16) < 0)
		return refused("listen");
	printf("listening\n");
	for (;;)
		close(accept(fd, NULL, NULL));
}

/* The host's side of the tests: listeners that end with their parent's signal. */
static int abstract_listen(char **arg)
{
	struct sockaddr_un a;
	socklen_t n = abstract_name(&a, arg[0]);
	int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);

	return bind(fd, (void *)&a, n) < 0 ? refused("bind") : serve(fd);
}

static int unix_listen(char **arg)
{
	struct sockaddr_un a = {.sun_family = AF_UNIX};
	int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);

	snprintf(a.sun_path, sizeof(a.sun_path), "%s", arg[0]);
	return bind(fd, (void *)&a, sizeof(a)) < 0 ? refused("bind") : serve(fd);
}

/* Prints the port the kernel chose, on every address of the host. */
static int tcp_listen(char **arg)
{
	struct sockaddr_in a = {.sin_family = AF_INET};
	socklen_t n = sizeof(a);
	int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);

	(void)arg;
	if (bind(fd, (void *)&a, n) < 0 || getsockname(fd, (void *)&a, &n) < 0)
		return refused("bind");
	printf("%d\n", ntohs(a.sin_port));
	return serve(fd);
}

/* route-change: a request that would alter an interface, by rtnetlink and by ioctl. */
static int route_change(char **arg)
{
	struct {
		struct nlmsghdr h;
		struct ifinfomsg i;
	} req = {
		.h = {.nlmsg_len = sizeof(req),
		      .nlmsg_type = RTM_NEWLINK,
		      .nlmsg_flags = NLM_F_REQUEST | NLM_F_ACK                           },
		.i = {.ifi_index = 1,           .ifi_flags = IFF_UP, .ifi_change = IFF_UP},
	};
	struct {
		struct nlmsghdr h;
		struct nlmsgerr e;
		char rest[512];
	} answer;
	int fd = socket(AF_NETLINK, SOCK_RAW | SOCK_CLOEXEC, NETLINK_ROUTE);

	(void)arg;
	if (fd < 0)
		return refused("netlink");
	if (send(fd, &req, sizeof(req), 0) < 0 ||
	    recv(fd, &answer, sizeof(answer), 0) < 0)
		return refused("rtnetlink");
	errno = -answer.e.error;
	return judge(answer.h.nlmsg_type == NLMSG_ERROR && answer.e.error ? -1 : 0,
		     "change an interface");
}

/* more-interfaces: any network interface but loopback. */
static int more_interfaces(char **arg)
{
	struct ifreq r = {0};
	int fd = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);

	(void)arg;
	for (int i = 1; fd >= 0 && i < 64; i++) {
		r.ifr_ifindex = i;
		if (ioctl(fd, 0x8910 /* SIOCGIFNAME */, &r) == 0 &&
		    strcmp(r.ifr_name, "lo") != 0)
			return worked("interface %s", r.ifr_name);
	}
	errno = ENODEV;
	return refused("an interface but loopback");
}

const struct attack net_attacks[] = {
	{"socket",           3, make_socket     },
	{"tcp",              2, tcp             },
	{"udp",              2, udp             },
	{"udp6",             1, udp6            },
	{"abstract-connect", 1, abstract_connect},
	{"abstract-listen",  1, abstract_listen },
	{"unix-connect",     1, unix_connect    },
	{"unix-listen",      1, unix_listen     },
	{"tcp-listen",       0, tcp_listen      },
	{"route-change",     0, route_change    },
	{"more-interfaces",  0, more_interfaces },
	{NULL,	       0, NULL            },
};
