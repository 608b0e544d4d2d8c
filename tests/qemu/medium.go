package qemu

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net"
	"sync"
)

// Medium is what is in a drive: its bytes are read as the computer reads them.
type Medium interface {
	// Size is the medium's size in bytes.
	Size(ctx context.Context) (int64, error)
	// ReadAt fills p with the bytes from an offset on, all of which are within the size.
	ReadAt(ctx context.Context, p []byte, at int64) error
}

// Media serves media to QEMU over NBD, on a socket of its own. QEMU could read a URL by itself, by its
// driver of curl; that is a package of its own in Debian (qemu-block-extra), asks for a URL's size and
// reads ahead as no BMC does, and tells nobody what it read. Its client of NBD is built in.
type Media struct {
	path string
	l    net.Listener
	work sync.WaitGroup

	mu    sync.Mutex
	in    Medium
	lines map[net.Conn]bool
}

// Serve serves media on a socket at a path, which has room in an address: 107 bytes.
func Serve(path string) (*Media, error) {
	l, err := net.Listen("unix", path)
	if err != nil {
		return nil, fmt.Errorf("listen for QEMU: %w", err)
	}
	s := &Media{path: path, l: l, lines: map[net.Conn]bool{}}
	s.work.Go(s.accept)
	return s, nil
}

// Close ends the reading of all media.
func (s *Media) Close() error {
	err := s.l.Close()
	s.cut()
	s.work.Wait()
	return err
}

func (s *Media) cut() {
	s.mu.Lock()
	defer s.mu.Unlock()
	for c := range s.lines {
		c.Close()
	}
}

func (s *Media) accept() {
	for {
		c, err := s.l.Accept()
		if err != nil {
			return
		}
		s.mu.Lock()
		in := s.in
		s.lines[c] = true
		s.mu.Unlock()
		s.work.Go(func() {
			defer func() {
				s.mu.Lock()
				delete(s.lines, c)
				s.mu.Unlock()
				c.Close()
			}()
			if in != nil {
				_ = serve(c, in) // what is wrong with a medium is seen by who reads it
			}
		})
	}
}

// Insert puts a medium into a computer's drive, in the place of what was in it. drive is the id of
// the device.
func (s *Media) Insert(p *Process, drive string, in Medium) error {
	s.mu.Lock()
	s.in = in
	s.mu.Unlock()
	return p.Do("blockdev-change-medium", map[string]any{
		"id": drive, "filename": "nbd+unix:///?socket=" + s.path, "format": "raw", "read-only-mode": "read-only", "force": true,
	}, nil)
}

// Eject empties a computer's drive, whether or not its system has locked it. Who still reads the
// medium fails.
func (s *Media) Eject(p *Process, drive string) error {
	s.mu.Lock()
	s.in = nil
	s.mu.Unlock()
	err := p.Do("eject", map[string]any{"id": drive, "force": true}, nil)
	s.cut()
	return err
}

// What passes over the wire, as NBD's doc/proto.md names it.
const (
	nbdMagic       = "NBDMAGIC"
	nbdOption      = "IHAVEOPT"
	nbdFixed       = 1 // NBD_FLAG_FIXED_NEWSTYLE
	nbdNoZeroes    = 2
	nbdReplyMagic  = 0x3e889045565a9
	nbdExportName  = 1
	nbdAbort       = 2
	nbdInfo        = 6
	nbdGo          = 7
	nbdAck         = 1
	nbdInfoReply   = 3
	nbdUnsupported = 1<<31 + 1
	nbdReadOnly    = 3 // NBD_FLAG_HAS_FLAGS and NBD_FLAG_READ_ONLY
	nbdRequest     = 0x25609513
	nbdAnswer      = 0x67446698
	nbdRead        = 0
	nbdDisconnect  = 2
	nbdEIO         = 5
	nbdEINVAL      = 22
	nbdMost        = 32 << 20 // bytes of one read, as much as QEMU asks for
)

// cdSector is a sector of a CD, of which a medium has a whole number.
const cdSector = 2048

// serve serves one medium over one connection.
func serve(c net.Conn, in Medium) error {
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	real, err := in.Size(ctx)
	if err != nil {
		return err
	}
	size := (real + cdSector - 1) / cdSector * cdSector
	if err := agree(c, size); err != nil {
		return err
	}
	buffer := []byte(nil)
	for {
		var r struct {
			Magic       uint32
			Flags, Type uint16
			Handle      uint64
			Offset      uint64
			Length      uint32
		}
		if err := binary.Read(c, binary.BigEndian, &r); err != nil {
			return err
		}
		if r.Magic != nbdRequest || r.Type == nbdDisconnect {
			return nil
		}
		failed := uint32(0)
		switch {
		case r.Type != nbdRead:
			return fmt.Errorf("NBD: a request of type %d for a medium that is read only", r.Type)
		case r.Length > nbdMost || r.Offset > uint64(size) || r.Offset+uint64(r.Length) > uint64(size):
			failed = nbdEINVAL
		default:
			if cap(buffer) < int(r.Length) {
				buffer = make([]byte, r.Length)
			}
			buffer = buffer[:r.Length]
			clear(buffer)
			if n := min(int64(r.Length), real-int64(r.Offset)); n > 0 {
				if err := in.ReadAt(ctx, buffer[:n], int64(r.Offset)); err != nil {
					failed = nbdEIO
				}
			}
		}
		answer := binary.BigEndian.AppendUint64(binary.BigEndian.AppendUint32(binary.BigEndian.AppendUint32(nil, nbdAnswer), failed), r.Handle)
		if failed == 0 {
			answer = append(answer, buffer...)
		}
		if _, err := c.Write(answer); err != nil {
			return err
		}
	}
}

// agree is the handshake, up to the first request.
func agree(c net.Conn, size int64) error {
	be := binary.BigEndian
	if _, err := c.Write(be.AppendUint16([]byte(nbdMagic+nbdOption), nbdFixed|nbdNoZeroes)); err != nil {
		return err
	}
	var flags uint32
	if err := binary.Read(c, be, &flags); err != nil {
		return err
	}
	export := be.AppendUint16(be.AppendUint64(nil, uint64(size)), nbdReadOnly)
	for {
		var o struct {
			Magic          [8]byte
			Option, Length uint32
		}
		if err := binary.Read(c, be, &o); err != nil {
			return err
		}
		if string(o.Magic[:]) != nbdOption || o.Length > 1<<16 {
			return errors.New("NBD: that is no option")
		}
		if _, err := io.CopyN(io.Discard, c, int64(o.Length)); err != nil {
			return err
		}
		reply := func(kind uint32, data []byte) error {
			b := be.AppendUint32(be.AppendUint32(be.AppendUint32(be.AppendUint64(nil, nbdReplyMagic), o.Option), kind), uint32(len(data)))
			_, err := c.Write(append(b, data...))
			return err
		}
		var err error
		switch o.Option {
		case nbdExportName:
			if flags&nbdNoZeroes == 0 {
				export = append(export, make([]byte, 124)...)
			}
			_, err = c.Write(export)
			return err
		case nbdInfo, nbdGo:
			if err = reply(nbdInfoReply, append([]byte{0, 0}, export...)); err == nil {
				err = reply(nbdAck, nil)
			}
			if o.Option == nbdGo && err == nil {
				return nil
			}
		case nbdAbort:
			_ = reply(nbdAck, nil) // nobody waits for it
			return errors.New("NBD: it was given up")
		default:
			err = reply(nbdUnsupported, nil)
		}
		if err != nil {
			return err
		}
	}
}
