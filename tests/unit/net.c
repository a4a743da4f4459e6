/* SPDX-License-Identifier: Apache-2.0 */
/* Live rules, the network log, and what is learned from it. */
#include "base/io.h"
#include "base/util.h"
#include "core/netfile.h"
#include "core/netlearn.h"
#include "core/netlog.h"
#include "core/netrules.h"
#include "tap.h"

#include <fcntl.h>
#include <sys/stat.h>

static int dir;
static char dir_path[] = "/tmp/cove-net-XXXXXX";

static json_t *rule(const char *text)
{
	return json_loads(text, 0, NULL);
}

static void live_rules(void)
{
	struct netrules r, again;
	struct cove_error err = {0};
	char id[NETRULES_ID];
	int64_t next;
	json_t *active;

	OK(netrules_load(&r, dir, &err) == 0 && json_array_size(r.rules) == 0,
	   "no file, no rules");
	OK(netrules_add(&r, rule("{\"host\":\"a.example.com\"}"), 0, id, &err) == 0 &&
		   strcmp(id, "live-1") == 0,
	   "the first is live-1");
	OK(netrules_add(&r, rule("{\"host\":\"b.example.com\",\"id\":\"mine\"}"), 1000,
			id, &err) == 0 &&
		   strcmp(id, "mine") == 0,
	   "an id of one's own");
	OK(netrules_add(&r, rule("{\"host\":\"c.example.com\",\"id\":\"mine\"}"), 0, id,
			&err) == COVE_EEXIST,
	   "that is taken: %s", err.msg);
	OK(netrules_save(&r, dir, &err) == 0 && netrules_load(&again, dir, &err) == 0 &&
		   json_equal(r.rules, again.rules) && again.next == r.next,
	   "what is saved is loaded");
	netrules_clear(&again);
	active = netrules_active(&r);
	OK(json_array_size(active) == 2 &&
		   !json_object_get(json_array_get(active, 0), "until") &&
		   !json_object_get(json_array_get(active, 0), "added"),
	   "without our own keys");
	json_decref(active);
	OK(!netrules_expire(&r, 999, &next) && next == 1000, "not yet");
	OK(netrules_expire(&r, 1000, &next) && next == 0 && json_array_size(r.rules) == 1,
	   "now it ends");
	OK(netrules_remove(&r, "live-1", &err) == 0 && json_array_size(r.rules) == 0,
	   "taken back");
	OK(netrules_remove(&r, "live-1", &err) == COVE_ENOENT, "only once");
	netrules_clear(&r);
}

static void bad_rules(void)
{
	static const char *const bad[] = {
		"[]",
		"{}",
		"{\"host\":1}",
		"{\"host\":\"a b\"}",
		"{\"host\":\"a.example.com\",\"hots\":1}",
		"{\"host\":\"a.example.com\",\"port\":0}",
		"{\"host\":\"a.example.com\",\"port\":\"9-8\"}",
		"{\"host\":\"a.example.com\",\"action\":\"maybe\"}",
		"{\"host\":\"a.example.com\",\"protocol\":\"tcp\",\"paths\":[\"/x\"]}",
		"{\"host\":\"a.example.com\",\"id\":\"No Name\"}",
		"{\"host\":\"a.example.com\",\"scope\":{}}",
	};
	static const char *const damaged[] = {
		"", "[]", "{\"rules\":1}", "{\"rules\":[{\"host\":1,\"id\":\"x\"}]}",
		"{\"rules\":[{\"host\":\"a.example.com\"}]}"};
	struct cove_error err = {0};
	struct netrules r;

	for (size_t i = 0; i < ARRAY_LEN(bad); i++) {
		json_t *j = rule(bad[i]);

		OK(netrule_check(j, "rule", &err) == COVE_EINVAL, "%s: %s", bad[i],
		   err.msg);
		json_decref(j);
	}
	for (size_t i = 0; i < ARRAY_LEN(damaged); i++) {
		write_file_atomic(dir, NETRULES_FILE, damaged[i], strlen(damaged[i]),
				  0600, 0);
		OK(netrules_load(&r, dir, &err) == COVE_EDAMAGED, "damaged: '%s'",
		   damaged[i]);
	}
	unlinkat(dir, NETRULES_FILE, 0);
}

static int audits, counted;

static void on_audit(void *arg, const char *event, json_t *fields)
{
	(void)arg;
	(void)event;
	audits++;
	counted += (int)json_integer_value(json_object_get(fields, "count"));
	json_decref(fields);
}

static void take(struct netlog *l, const char *verdict, const char *host, int port)
{
	json_t *e = json_pack("{s:s, s:s, s:s, s:i, s:s, s:s}", "kind", "connect",
			      "verdict", verdict, "host", host, "port", port, "rule",
			      "mode:allowlist", "reason", "no rule allows it");

	netlog_take(l, e);
	json_decref(e);
}

static void events(void)
{
	struct cove_error err = {0};
	struct netlog *l;
	json_t *d;
	char host[32];

	OK(netlog_open(&l, -1, &err) == 0 && netlog_fd(l) < 0, "a log without a file");
	netlog_set_audit(l, on_audit, NULL);
	for (int i = 0; i < 50; i++)
		take(l, "deny", "a.example.com", 443);
	take(l, "deny", "b.example.com", 80);
	OK(audits == 2, "a record for each host and port, not for each time (%d)",
	   audits);
	for (int i = 0; i < 5; i++)
		take(l, "allow", "c.example.com", 443);
	OK(audits == 3, "the first use of a rule");
	d = netlog_denied(l, 0);
	OK(json_array_size(d) == 2 && json_integer_value(json_object_get(
					      json_array_get(d, 1), "count")) == 50,
	   "refusals with their count, newest first");
	json_decref(d);
	OK(netlog_due(l) > 0, "the others wait");
	netlog_set_audit(l, NULL, NULL);
	OK(audits == 4 && counted == 49, "and are told together (%d)", counted);
	for (int i = 0; i < 3 * NETLOG_HOSTS; i++) {
		snprintf(host, sizeof(host), "h%d.example.com", i);
		take(l, "deny", host, i & 0xffff);
	}
	d = netlog_denied(l, 0);
	OK(json_array_size(d) > 0 && json_array_size(d) <= NETLOG_HOSTS, "bounded");
	json_decref(d);
	netlog_close(l);
}

static int collect(void *arg, const char *line, size_t n)
{
	buf_append(arg, line, n);
	buf_append(arg, ";", 1);
	return 0;
}

static void reading(void)
{
	cleanup_buf struct buf got = BUF_INIT(1 << 20);
	struct cove_error err = {0};
	uint64_t cursor = 0;
	struct netlog *l;

	OK(netlog_read(dir, &cursor, collect, &got, &err) == 0 && got.len == 0,
	   "no log, no lines");
	OK(netlog_open(&l, dir, &err) == 0 && netlog_fd(l) >= 0, "a log");
	write_all(netlog_fd(l), "one\ntwo\nthr", 11);
	netlog_read(dir, &cursor, collect, &got, &err);
	OK(got.data && strcmp(got.data, "one;two;") == 0, "whole lines");
	write_all(netlog_fd(l), "ee\n", 3);
	OK(renameat(dir, NETLOG_FILE, dir, NETLOG_OLD) == 0, "it is rotated");
	netlog_close(l);
	netlog_open(&l, dir, &err);
	write_all(netlog_fd(l), "four\n", 5);
	netlog_read(dir, &cursor, collect, &got, &err);
	OK(strcmp(got.data, "one;two;three;four;") == 0, "read on over the rotation: %s",
	   got.data);
	netlog_read(dir, &cursor, collect, &got, &err);
	OK(strcmp(got.data, "one;two;three;four;") == 0, "and nothing twice");
	buf_clear(&got);
	cursor = 0;
	netlog_read(dir, &cursor, collect, &got, &err);
	OK(got.data && strcmp(got.data, "one;two;three;four;") == 0,
	   "all from the start");
	netlog_close(l);
}

static void rotation(void)
{
	struct cove_error err = {0};
	cleanup_free char *block = malloc(1 << 20);
	struct netlog *l = NULL;
	struct stat st;

	unlinkat(dir, NETLOG_OLD, 0);
	netlog_open(&l, dir, &err);
	memset(block, 'x', 1 << 20);
	block[(1 << 20) - 1] = '\n';
	OK(!netlog_turn(l, 10000), "not full");
	for (unsigned i = 0; i < NETLOG_MAX >> 20; i++)
		write_all(netlog_fd(l), block, 1 << 20);
	OK(!netlog_turn(l, 10001), "not looked at all the time");
	OK(netlog_turn(l, 20000), "full");
	OK(fstatat(dir, NETLOG_OLD, &st, 0) == 0 && st.st_size >= (off_t)NETLOG_MAX &&
		   fstat(netlog_fd(l), &st) == 0 && st.st_size == 0,
	   "a new file, the old one beside it");
	netlog_note(l, "policy", json_pack("{s:s}", "error", "nothing\nto see"));
	OK(fstat(netlog_fd(l), &st) == 0 && st.st_size > 20, "a note of our own");
	netlog_close(l);
}

static void learn(struct netlearn *l, const char *line)
{
	netlearn_line(l, line, strlen(line));
}

static void learning(void)
{
	struct netlearn *l = NULL;
	json_t *p, *rules;
	char line[300];
	cleanup_free char *text = NULL;

	netlearn_new(&l);
	learn(l, "{\"kind\":\"connect\",\"verdict\":\"allow\",\"learn\":true,\"host\":"
		 "\"B.example.com\",\"port\":443}");
	learn(l, "{\"kind\":\"connect\",\"verdict\":\"allow\",\"learn\":true,\"host\":"
		 "\"a.example.com\",\"port\":8080}");
	learn(l, "{\"kind\":\"connect\",\"verdict\":\"allow\",\"learn\":true,\"host\":"
		 "\"a.example.com\",\"port\":443}");
	learn(l, "{\"kind\":\"connect\",\"verdict\":\"deny\",\"learn\":true,\"host\":"
		 "\"n.example.com\",\"port\":443}");
	learn(l, "{\"kind\":\"connect\",\"verdict\":\"allow\",\"host\":"
		 "\"n.example.com\",\"port\":443}");
	learn(l, "{\"kind\":\"connect\",\"verdict\":\"allow\",\"learn\":true,\"host\":"
		 "\"bad host\",\"port\":443}");
	learn(l, "not JSON \"learn\":true");
	learn(l, "{\"kind\":\"connect\",\"verdict\":\"allow\",\"learn\":true,\"ip\":"
		 "\"2001:db8::1\",\"port\":22}");
	for (int i = 0; i < 40; i++) {
		snprintf(line, sizeof(line),
			 "{\"kind\":\"request\",\"verdict\":\"allow\",\"learn\":true,"
			 "\"host\":\"c.example.com\",\"port\":443,\"method\":\"GET\","
			 "\"path\":\"/v1/%d\"}",
			 i);
		learn(l, line);
	}
	p = netlearn_policy(l);
	rules = json_object_get(p, "rules");
	text = json_dumps(rules, JSON_COMPACT);
	OK(text && strcmp(text, "[{\"host\":\"2001:db8::1\",\"port\":22},"
				"{\"host\":\"a.example.com\",\"port\":[443,8080]},"
				"{\"host\":\"b.example.com\",\"port\":443},"
				"{\"host\":\"c.example.com\",\"port\":443,\"protocol\":"
				"\"http\","
				"\"methods\":[\"GET\"],\"paths\":[\"/v1/**\"]}]") == 0,
	   "one rule for each host, in order: %s", text ? text : "?");
	for (size_t i = 0; i < json_array_size(rules); i++) {
		struct cove_error err = {0};

		OK(netrule_check(json_array_get(rules, i), "rule", &err) == 0,
		   "it is a rule: %s", err.msg);
	}
	json_decref(p);
	netlearn_free(l);
}

static void files(void)
{
	static const struct {
		const char *text;
		bool ok;
	} v[] = {
		{"{\"network\":{\"mode\":\"open\"}}",                                   true },
		{"{\"mode\":\"allowlist\",\"rules\":[{\"host\":\"a.example.com\"}]}",
		 true									},
		{"[{\"host\":\"a.example.com\",\"port\":443}]",                         true },
		{"network:\n  mode: learn\n",                                           true },
		{"mode: allowlist\nrules:\n - {host: a.example.com, port: [80, 81]}\n",
		 true									},
		{"",								    true },
		{"{",								   false},
		{"{\"mode\":\"shut\"}",						 false},
		{"{\"network\":{},\"image\":\"host\"}",                                 false},
		{"rules:\n - host: [a\n",					       false},
		{"rules:\n - hots: a.example.com\n",                                    false},
	};
	char path[64];

	snprintf(path, sizeof(path), "%s/policy", dir_path);
	for (size_t i = 0; i < ARRAY_LEN(v); i++) {
		struct cove_error err = {0};
		struct netfile f = {0};
		int r;

		write_file_atomic(dir, "policy", v[i].text, strlen(v[i].text), 0600, 0);
		r = netfile_read(&f, path, &err);
		if (r == 0)
			r = netfile_check(&f, &err);
		OK((r == 0) == v[i].ok, "policy file %zu: %s", i, err.msg);
		netfile_clear(&f);
	}
	unlinkat(dir, "policy", 0);
}

int main(void)
{
	if (!mkdtemp(dir_path) || (dir = open(dir_path, O_RDONLY | O_DIRECTORY)) < 0)
		return 1;
	live_rules();
	bad_rules();
	events();
	reading();
	rotation();
	learning();
	files();
	close(dir);
	remove_tree_at(AT_FDCWD, dir_path);
	return tap_done();
}
