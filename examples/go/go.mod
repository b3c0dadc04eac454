module iolens.example/signal

go 1.21
