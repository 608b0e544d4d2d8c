package lab

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"os"
	"sync"
)

// console is a file with what a machine wrote to its serial port.
type console struct {
	mu   sync.Mutex
	file *os.File
	size int64
	more chan struct{} // closed when there is more
}

// openConsole opens a console, behind what is there from before.
func openConsole(path string) (*console, error) {
	file, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE|os.O_APPEND, 0o644)
	if err != nil {
		return nil, err
	}
	info, err := file.Stat()
	if err != nil {
		file.Close()
		return nil, err
	}
	return &console{file: file, size: info.Size(), more: make(chan struct{})}, nil
}

func (c *console) Close() error { return c.file.Close() }

// Write adds to the console.
func (c *console) Write(p []byte) (int, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	n, err := c.file.Write(p)
	c.size += int64(n)
	close(c.more)
	c.more = make(chan struct{})
	return n, err
}

// tail is the end of the console, at most so many bytes.
func (c *console) tail(most int64) (string, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	text, err := c.from(max(0, c.size-most))
	return string(text), err
}

// end is the end of the console, or why it cannot be read.
func (c *console) end(most int64) string {
	text, err := c.tail(most)
	if err != nil {
		return err.Error()
	}
	return text
}

// from is the console from an offset on. The lock is held.
func (c *console) from(offset int64) ([]byte, error) {
	return io.ReadAll(io.NewSectionReader(c.file, offset, max(0, c.size-offset)))
}

// await waits until a text is in the console, from an offset on, and gives the offset behind it.
func (c *console) await(ctx context.Context, text string, offset int64) (int64, error) {
	for {
		c.mu.Lock()
		got, err := c.from(offset)
		more := c.more
		c.mu.Unlock()
		if err != nil {
			return 0, err
		}
		if i := bytes.Index(got, []byte(text)); i >= 0 {
			return offset + int64(i+len(text)), nil
		}
		// What may be the beginning of the text is looked at again.
		offset += int64(max(0, len(got)-len(text)+1))
		select {
		case <-more:
		case <-ctx.Done():
			return 0, fmt.Errorf("the console has not %q: %w; its end is:\n%s", text, ctx.Err(), c.end(4000))
		}
	}
}
