package main

import (
	"bufio"
	"context"
	"os/exec"
	"regexp"
	"strings"
	"syscall"

	"github.com/jedib0t/go-pretty/v6/text"
)

// console is what a machine writes while it is followed.
type console struct {
	cmd   *exec.Cmd
	lines chan string
}

// unseen is what a machine tells its terminal: colours, and where to write.
var unseen = regexp.MustCompile(`\x1b(\[[0-9;?=]*[A-Za-z]|[()][0-9A-Z]|[A-Za-z=>])|[\x00-\x08\x0b-\x1f\x7f]`)

// atOnce is how many of the lines that came since the last look are shown.
const atOnce = 3

// follow shows a machine's console, which a program prints, beside the progress, until unfollow.
func (s *stage) follow(program string, args ...string) error {
	s.show.command(program + " " + strings.Join(args, " "))
	c := &console{cmd: s.command(context.Background(), program, args...), lines: make(chan string, 1000)}
	c.cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true, Pdeathsig: syscall.SIGKILL}
	out, err := c.cmd.StdoutPipe()
	if err != nil {
		return err
	}
	if err := c.cmd.Start(); err != nil {
		return err
	}
	s.console = c
	go func() {
		defer close(c.lines)
		for lines := bufio.NewScanner(out); lines.Scan(); {
			if line := strings.TrimRight(unseen.ReplaceAllString(lines.Text(), ""), " "); line != "" {
				c.lines <- line
			}
		}
	}()
	return nil
}

func (s *stage) unfollow() {
	s.console.end()
	s.console = nil
}

// show prints the last of the lines that came.
func (c *console) show(to *screen) {
	if c == nil {
		return
	}
	var came []string
	for {
		select {
		case line, open := <-c.lines:
			if open {
				came = append(came, line)
				continue
			}
		default:
		}
		break
	}
	for _, line := range came[max(0, len(came)-atOnce):] {
		to.quiet(line)
	}
}

// end ends the program. What it wrote meanwhile is let go.
func (c *console) end() {
	if c == nil {
		return
	}
	_ = c.cmd.Process.Kill() // one that has ended is what is wanted
	for range c.lines {
	}
	_ = c.cmd.Wait() // it was killed
}

// quiet prints a line that is only there to be seen passing, as much of it as
// there is room for.
func (s *screen) quiet(line string) {
	line = strings.ReplaceAll(line, "\t", " ")
	s.aside(s.paint("│ ", text.Faint), text.Trim(line, s.width-gutter-2), text.Faint)
}
