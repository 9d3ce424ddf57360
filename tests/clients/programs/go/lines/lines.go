// Package lines is how a client's program talks with the test: JSON lines out, a line in.
package lines

import (
	"encoding/json"
	"fmt"
	"os"
	"strconv"
	"strings"
	"time"
)

const (
	Records = 40
	Pace    = 25 * time.Millisecond

	attempts      = 100
	attemptsPause = 200 * time.Millisecond
)

var Padding = strings.Repeat(" padding", 40)

type Facts map[string]any

// At is what a program is told to work at.
type At struct {
	Brokers []string
	Topic   string
	Group   string
	SinceMs int64
}

func Tell(facts Facts) {
	line, err := json.Marshal(facts)
	Must(err)
	fmt.Println(string(line))
}

// Spoken waits until the test says something.
func Spoken() {
	_, err := os.Stdin.Read(make([]byte, 1))
	Must(err)
}

func Half() {
	Tell(Facts{"at": "half"})
	Spoken()
}

func Must(err error) {
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

// AskedAgain asks until there is no error: while a dead broker is asked, where a client does not.
func AskedAgain[Answer any](ask func() (Answer, error)) Answer {
	answer, err := ask()
	for attempt := 1; err != nil && attempt < attempts; attempt++ {
		time.Sleep(attemptsPause)
		answer, err = ask()
	}
	Must(err)
	return answer
}

// OnceAllKnow returns the answer once it is the wanted one: one broker hears of a change after another.
func OnceAllKnow[Answer comparable](wanted Answer, ask func() Answer) Answer {
	answer := ask()
	for attempt := 1; answer != wanted && attempt < attempts; attempt++ {
		time.Sleep(attemptsPause)
		answer = ask()
	}
	return answer
}

func Run(steps map[string]func(At)) {
	sinceMs, err := strconv.ParseInt(os.Args[5], 10, 64)
	Must(err)
	steps[os.Args[1]](At{strings.Split(os.Args[2], ","), os.Args[3], os.Args[4], sinceMs})
}
