# Paging of text files. Pages count from 1.

# page_lines FILE PAGE SIZE: prints the lines of one page.
page_lines() {
    page_first=$(( $2 * $3 ))
    page_last=$(( page_first + $3 ))
    sed -n "${page_first},${page_last}p" "$1"
}

# page_count FILE SIZE: prints how many pages the file has.
page_count() {
    page_total=$(grep -c '' "$1" || true)
    echo $(( page_total / $2 ))
}
