package main

import (
	"net"
	"net/http"
	"net/url"
	"strings"
	"sync"

	"k8s.io/client-go/rest"
)

// request is what a client asked and what kind of answer it got.
type request struct {
	method, path string
	query        url.Values
	status       int
	contentType  string
}

// traffic remembers the requests of a client.
type traffic struct {
	lock     sync.Mutex
	requests []request
}

// record makes all clients of a configuration remember their requests.
func record(config *rest.Config) *traffic {
	seen := &traffic{}
	config.Wrap(func(next http.RoundTripper) http.RoundTripper {
		return roundTripper(func(r *http.Request) (*http.Response, error) {
			answer, err := next.RoundTrip(r)
			if err == nil {
				seen.lock.Lock()
				defer seen.lock.Unlock()
				seen.requests = append(seen.requests, request{
					r.Method, r.URL.Path, r.URL.Query(), answer.StatusCode, answer.Header.Get("Content-Type"),
				})
			}
			return answer, err
		})
	})
	return seen
}

type roundTripper func(*http.Request) (*http.Response, error)

func (f roundTripper) RoundTrip(r *http.Request) (*http.Response, error) { return f(r) }

// count says how many requests are of a kind.
func (t *traffic) count(of func(request) bool) int {
	t.lock.Lock()
	defer t.lock.Unlock()
	found := 0
	for _, one := range t.requests {
		if of(one) {
			found++
		}
	}
	return found
}

// streamedLists is how many lists came as the beginning of a watch.
func (t *traffic) streamedLists() int {
	return t.count(func(r request) bool { return r.query.Get("sendInitialEvents") == "true" && r.status == 200 })
}

// plainLists is how many lists came whole.
func (t *traffic) plainLists(resource string) int {
	return t.count(func(r request) bool {
		return r.method == http.MethodGet && strings.HasSuffix(r.path, "/"+resource) && r.query.Get("watch") == ""
	})
}

// forwarder passes connections on to a server, as long as it is told to.
type forwarder struct {
	target   string
	lock     sync.Mutex
	listener net.Listener
	open     map[net.Conn]bool
}

// forward makes a configuration go through a forwarder of its own.
func forward(config *rest.Config) (*forwarder, error) {
	server, err := url.Parse(config.Host)
	if err != nil {
		return nil, err
	}
	f := &forwarder{target: server.Host, open: map[net.Conn]bool{}}
	if err := f.start("127.0.0.1:0"); err != nil {
		return nil, err
	}
	config.Host = "https://" + f.listener.Addr().String()
	return f, nil
}

func (f *forwarder) start(address string) error {
	listener, err := net.Listen("tcp", address)
	if err != nil {
		return err
	}
	f.listener = listener
	go func() {
		for {
			client, err := listener.Accept()
			if err != nil {
				return
			}
			go f.serve(client)
		}
	}()
	return nil
}

func (f *forwarder) serve(client net.Conn) {
	server, err := net.Dial("tcp", f.target)
	if err != nil {
		client.Close()
		return
	}
	f.lock.Lock()
	f.open[client], f.open[server] = true, true
	f.lock.Unlock()
	pass := func(from, to net.Conn) {
		buffer := make([]byte, 32<<10)
		for {
			n, err := from.Read(buffer)
			if n > 0 {
				if _, failed := to.Write(buffer[:n]); failed != nil {
					break
				}
			}
			if err != nil {
				break
			}
		}
		from.Close()
		to.Close()
		f.lock.Lock()
		delete(f.open, from)
		f.lock.Unlock()
	}
	go pass(client, server)
	go pass(server, client)
}

// cut ends all connections and takes no new ones; the address to come back to.
func (f *forwarder) cut() string {
	address := f.listener.Addr().String()
	f.listener.Close()
	f.lock.Lock()
	defer f.lock.Unlock()
	for conn := range f.open {
		conn.Close()
	}
	return address
}
