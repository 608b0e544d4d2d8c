package main

import (
	"fmt"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/slipway-gitops/slipway/tests/bench/rig"

	"github.com/slipway-gitops/slipway/tests/port"
)

// settings are those of nginx that cost it least for one large file: a worker for each
// processor, no log, the file stays open and is known to be there, the kernel copies it
// (sendfile, 2 MiB at a time as by default), and its head goes out with its first bytes. By TLS
// the kernel encrypts too, where it can.
const settings = `user root;
worker_processes auto;
pid %[1]s/nginx.pid;
error_log %[1]s/nginx.log warn;
events { worker_connections 1024; multi_accept on; }
http {
	access_log off;
	default_type application/octet-stream;
	sendfile on;
	sendfile_max_chunk 2m;
	tcp_nopush on;
	open_file_cache max=16 inactive=1h;
	open_file_cache_valid 1h;
	keepalive_requests 100000;
	server {
		listen %[2]s%[3]s;
		root %[4]s;
		%[5]s
	}
}
`

// beginNginx starts nginx, which gives one file at a URL.
func beginNginx(dir, file, cert, key string) (p *process, url string, err error) {
	at, err := port.Address()
	if err != nil {
		return nil, "", err
	}
	scheme, ssl, more := "http", "", ""
	if cert != "" {
		scheme, ssl = "https", " ssl"
		more = fmt.Sprintf("ssl_certificate %s;\n\t\tssl_certificate_key %s;\n\t\tssl_protocols TLSv1.3;\n\t\tssl_buffer_size 16k;\n", cert, key)
		if kernelEncrypts() {
			more += "\t\tssl_conf_command Options KTLS;\n"
		} else {
			rig.Progress("serve: this kernel has no module for TLS, so that nginx encrypts by itself")
		}
	}
	conf := filepath.Join(dir, "nginx.conf")
	text := fmt.Sprintf(settings, dir, at, ssl, filepath.Dir(file), more)
	if err := os.WriteFile(conf, []byte(text), 0o600); err != nil {
		return nil, "", err
	}
	p, err = begin([]string{"/usr/sbin/nginx", "-p", dir, "-e", filepath.Join(dir, "nginx.log"), "-c", conf, "-g", "daemon off;"})
	if err != nil {
		return nil, "", err
	}
	if err := answers(at, time.Now().Add(20*time.Second)); err != nil {
		p.end()
		log, _ := os.ReadFile(filepath.Join(dir, "nginx.log"))
		return nil, "", fmt.Errorf("nginx: %w: %s%s", err, p.said.String(), log)
	}
	return p, fmt.Sprintf("%s://%s/%s", scheme, at, filepath.Base(file)), nil
}

// kernelEncrypts says whether the kernel encrypts what is sent by TLS.
func kernelEncrypts() bool {
	text, _ := os.ReadFile("/proc/sys/net/ipv4/tcp_available_ulp")
	return slices.Contains(strings.Fields(string(text)), "tls")
}

// answers waits until somebody listens at an address.
func answers(at string, until time.Time) error {
	for {
		c, err := net.DialTimeout("tcp", at, time.Second)
		if err == nil {
			return c.Close()
		}
		if time.Now().After(until) {
			return err
		}
		time.Sleep(50 * time.Millisecond) // until it listens
	}
}
