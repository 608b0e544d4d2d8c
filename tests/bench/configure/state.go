package main

import (
	"fmt"
	"strings"
)

// The state that both tools bring hosts to: 20 files, 10 kernel parameters, 5 users
// with keys, 3 units, and 5 packages that are there already.
const (
	files  = 20
	users  = 5
	suffix = "a line of text that makes the file about as long as a short configuration is\n"
)

// Parameters of the network: each host has its own.
var parameters = []string{
	"net.ipv4.ip_forward=1", "net.ipv4.tcp_fin_timeout=31", "net.ipv4.tcp_keepalive_time=601", "net.ipv4.conf.all.log_martians=1",
	"net.ipv4.conf.all.rp_filter=2", "net.ipv4.tcp_syn_retries=5", "net.ipv4.icmp_echo_ignore_broadcasts=1", "net.ipv4.tcp_retries2=14",
	"net.ipv4.conf.default.rp_filter=2", "net.ipv4.tcp_keepalive_intvl=61",
}

var packages = []string{"cron", "rsync", "less", "tree", "jq"}

func filePath(i int) string { return fmt.Sprintf("/etc/bench/file-%02d.conf", i) }

func fileText(i int) string { return strings.Repeat(fmt.Sprintf("%d: ", i)+suffix, 10) }

func user(i int) string { return fmt.Sprintf("person%d", i) }

func unit(i int) string { return fmt.Sprintf("bench-%d.service", i) }

const unitText = "[Unit]\nDescription=A unit of the benchmark\n\n[Service]\nType=oneshot\nRemainAfterExit=yes\nExecStart=/bin/true\n\n[Install]\nWantedBy=multi-user.target\n"
